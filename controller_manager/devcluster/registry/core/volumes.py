"""Persistent volumes and claims."""

import copy
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.strategy import (
    AGE,
    NAME,
    Cells,
    Column,
    Strategy,
    age,
)
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.claim_defaults import default_claim
from controller_manager.devcluster.registry.columns import name_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.storage import Storage
from controller_manager.devcluster.validation.field_values import (
    validate_positive_quantity,
)
from controller_manager.devcluster.validation.rules import nested
from controller_manager.devcluster.validation.text import table

# Cells that volumes and volume claims share.

UNSET: Final = "<unset>"
"""The text that tables show for an unset field."""

_SHORT: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def access_modes(modes: list[str]) -> str:
    """Return kubectl's abbreviations of access modes, each once, in kubectl's order."""
    return ",".join(short for mode, short in _SHORT.items() if mode in modes)


def phase_of(obj: JSON) -> str:
    """Return the phase, or Terminating for an object that is being deleted."""
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return str(obj.get("status", {}).get("phase", ""))


# The two fields of a claim that name the source of its data.

_COPIED: Final = (
    ("", "PersistentVolumeClaim"),
    (
        "snapshot.storage.k8s.io",
        "VolumeSnapshot",
    ),
)
"""The sources that the older field may name."""


def fill_in_data_sources(spec: JSON) -> None:
    """Copy the source of a new claim to the field that is empty.

    The older field, ``dataSource``, cannot name all kinds of sources. Sources of other
    kinds are removed from it.
    """
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old and not new:
        if (old.get("apiGroup") or "", old.get("kind")) in _COPIED:
            spec["dataSourceRef"] = dict(old)
        else:
            del spec["dataSource"]
    elif new and not old and not new.get("namespace"):
        spec["dataSource"] = dict(new)


# Validation of volume claims (core/validation).

ACCESS_MODES: Final = (
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
)
_RESIZES: Final = (
    "ControllerResizeFailed",
    "ControllerResizeInProgress",
    "NodeResizeFailed",
    "NodeResizeInProgress",
    "NodeResizePending",
)
_IMMUTABLE: Final = (
    "spec is immutable after creation except resources.requests and "
    "volumeAttributesClassName for bound claims"
)


def validate_access_modes(modes: Sequence[str], field: str) -> Iterator[Cause]:
    """Check that access modes exist and do not contradict each other."""
    if not modes:
        yield required(field, "at least 1 access mode is required")
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield not_supported(field, shown(mode), ACCESS_MODES)
    if "ReadWriteOncePod" in modes and {*modes} & {*ACCESS_MODES[:3]}:
        detail = "may not use ReadWriteOncePod with other access modes"
        yield forbidden_field(field, detail)


def _size(resources: JSON, field: str) -> list[Cause]:
    size, where = resources.get("requests", {}).get("storage"), f"{field}[storage]"
    return validate_positive_quantity(size, where) if size else [required(where)]


CLAIM_SPEC: Final = table(
    """
    accessModes: access_modes default empty
    selector: selector
    resources: size pointer
    storageClassName, volumeAttributesClassName: subdomain
    volumeMode: enum Block Filesystem default null
    """,
    validate_access_modes,
    _size,
)


def validate_claim_update(old: JSON, new: JSON) -> list[Cause]:
    """Check that the spec changes only where it may.

    The name of the volume and of the storage class can be set once. A bound claim can
    be made larger.
    """
    before, after = copy.deepcopy(old["spec"]), copy.deepcopy(new["spec"])
    for name in ("volumeName", "storageClassName"):
        if name not in before and name in after:
            before[name] = after[name]
    before.pop("volumeAttributesClassName", None)
    after.pop("volumeAttributesClassName", None)
    if new.get("status", {}).get("phase") == "Bound":
        before["resources"].get("requests", {}).pop("storage", None)
        after["resources"].get("requests", {}).pop("storage", None)
    causes = []
    if before != after:
        changes = _differences(before, after)
        causes.append(forbidden_field("spec", f"{_IMMUTABLE}\n{changes}"))
    return causes + _smaller(old, new) + _attributes_class(old, new)


def _attributes_class(old: JSON, new: JSON) -> list[Cause]:
    """Check that a claim does not remove its volume attributes class."""
    name = "volumeAttributesClassName"
    before, after = old["spec"].get(name), new["spec"].get(name)
    if before is None or after:
        return []
    if before == after:
        return []
    what = "nil" if after is None else "an empty string"
    return [
        forbidden_field(
            f"spec.{name}", f"update from non-nil value to {what} is forbidden"
        )
    ]


def _states(states: JSON, field: str) -> Iterator[Cause]:
    for resource, state in states.items():
        if state not in _RESIZES:
            where = field.removesuffix("es")
            yield not_supported(where, shown(resource), _RESIZES)


CLAIM_STATUS: Final = table(
    """
    status:
      capacity{}: quantity
      allocatedResources{}: quantity
      allocatedResourceStatuses: states
    """,
    _states,
)


def _differences(before: JSON, after: JSON) -> str:
    changed = [
        name
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
    return "".join(
        f'-  "{name}": {shown(before.get(name))},\n'
        f'+  "{name}": {shown(after.get(name))},\n'
        for name in changed
    )


def _smaller(old: JSON, new: JSON) -> list[Cause]:
    """Check that a claim is not made smaller than its volume."""
    sizes = [each["spec"]["resources"].get("requests", {}) for each in (old, new)]
    before, after = (parse_quantity(each.get("storage", "0")) for each in sizes)
    actual = old.get("status", {}).get("capacity", {})
    capacity = parse_quantity(actual.get("storage", "0"))
    if after >= before or after > capacity:
        return []
    field = "spec.resources.requests.storage"
    return [forbidden_field(field, "field can not be less than status.capacity")]


# Validation of volumes (core/validation).

_NOT_SOURCES: Final = frozenset(
    (
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    )
)
"""The fields of the spec that are not volume sources."""


def _capacity(capacity: JSON, field: str) -> Iterator[Cause]:
    if capacity.keys() != {"storage"}:
        yield not_supported(field, shown(sorted(capacity)), ("storage",))


def _one_source(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    sources = sorted(_source(spec))
    for name in sources[1:]:
        why = "may not specify more than 1 volume type"
        yield forbidden_field(f"{path}{name}", why)
    if not sources:
        yield required(path[:-1], "must specify a volume type")


VOLUME: Final = table(
    """
    spec:
      accessModes: access_modes default empty
      capacity: required
      capacity: capacity
      capacity{}: positive-quantity
      hook one_source
      persistentVolumeReclaimPolicy: enum Delete Recycle Retain default null
      storageClassName: subdomain
      volumeMode: enum Block Filesystem default null
      when has volumeAttributesClassName:
        volumeAttributesClassName: required "an empty string is disallowed"
        volumeAttributesClassName: subdomain
        csi: required pointer
          "has to be specified when using volumeAttributesClassName"
    """,
    validate_access_modes,
    _capacity,
    _one_source,
)


def _moves(spec: JSON, old: JSON) -> bool:
    return _source(spec) != _source(old)


def _had_affinity(_: JSON, old: JSON) -> bool:
    return bool(old.get("nodeAffinity"))


VOLUME_UPDATE: Final = table(
    """
    spec change:
      self: forbidden at persistentvolumesource if moves
        "spec.persistentvolumesource is immutable after creation"
      volumeMode: immutable
      when had_affinity:
        nodeAffinity: immutable
      self: forbidden at volumeAttributesClassName
        if outer has volumeAttributesClassName and lacks volumeAttributesClassName
        "update from non-nil value to nil is forbidden"
    """,
    _moves,
    _had_affinity,
)


def _source(spec: JSON) -> JSON:
    return {name: spec[name] for name in spec if name not in _NOT_SOURCES}


# PersistentVolume: a piece of storage.


class PersistentVolumeStrategy(Strategy):
    """The place of the storage is immutable."""

    returns_deleted: ClassVar = True
    rules: ClassVar = VOLUME
    update_rules: ClassVar = VOLUME_UPDATE
    columns: ClassVar = (
        NAME,
        Column("Capacity"),
        Column("Access Modes"),
        Column("Reclaim Policy"),
        Column("Status"),
        Column("Claim"),
        Column("StorageClass"),
        Column("VolumeAttributesClass"),
        Column("Reason"),
        AGE,
        Column("VolumeMode", priority=1),
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the reclaim policy, the volume mode and the phase."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        if "hostPath" in spec:
            spec["hostPath"].setdefault("type", "")
        obj.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Fill in the time at which the volume entered its phase."""
        del storage
        since = obj["metadata"]["creationTimestamp"]
        obj["status"]["lastPhaseTransitionTime"] = since

    def stamp(self, old: JSON, new: JSON, now: datetime) -> None:
        """Fill in the time at which the volume entered its phase, if it is absent."""
        before, after = old.get("status", {}), new["status"]
        since, name = before.get("lastPhaseTransitionTime"), "lastPhaseTransitionTime"
        if before.get("phase") == after.get("phase"):
            if since is not None:
                after.setdefault(name, since)
        elif after.get(name) in (None, since):
            after[name] = format_time(now)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj.get("spec", {})
        claim = spec.get("claimRef")
        return [
            name_of(obj),
            spec.get("capacity", {}).get("storage", "0"),
            access_modes(spec.get("accessModes", [])),
            spec.get("persistentVolumeReclaimPolicy", ""),
            phase_of(obj),
            f"{claim['namespace']}/{claim['name']}" if claim else "",
            spec.get("storageClassName", ""),
            spec.get("volumeAttributesClassName", UNSET),
            obj.get("status", {}).get("reason", ""),
            age(obj, now),
            spec.get("volumeMode", UNSET),
        ]


VOLUMES: Final = kind_of("v1", "persistentvolumes", PersistentVolumeStrategy())


# PersistentVolumeClaim: a request for a volume.


class PersistentVolumeClaimStrategy(Strategy):
    """The spec is immutable, except for a larger size and fields that are set once."""

    returns_deleted: ClassVar = True
    rules: ClassVar = nested("spec", [CLAIM_SPEC])
    status_rules: ClassVar = CLAIM_STATUS
    columns: ClassVar = (
        NAME,
        Column("Status"),
        Column("Volume"),
        Column("Capacity"),
        Column("Access Modes"),
        Column("StorageClass"),
        Column("VolumeAttributesClass"),
        AGE,
        Column("VolumeMode", priority=1),
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the volume mode and the phase."""
        default_claim(obj)

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Fill in both fields for the source of the data."""
        del storage
        fill_in_data_sources(obj["spec"])

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the spec changes only where it may."""
        return validate_claim_update(old, new)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table; a bound claim has a size and access modes."""
        spec, status = obj.get("spec", {}), obj.get("status", {})
        volume = spec.get("volumeName", "")
        return [
            name_of(obj),
            phase_of(obj),
            volume,
            status.get("capacity", {}).get("storage", "0") if volume else "",
            access_modes(status.get("accessModes", [])) if volume else "",
            spec.get("storageClassName", ""),
            spec.get("volumeAttributesClassName", UNSET),
            age(obj, now),
            spec.get("volumeMode", UNSET),
        ]


CLAIMS: Final = kind_of("v1", "persistentvolumeclaims", PersistentVolumeClaimStrategy())
