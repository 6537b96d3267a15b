"""Persistent volumes and claims."""

import copy
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.registry.kinds import kind_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.storage import Storage
from controller_manager.devcluster.validation.rules import nested
from controller_manager.devcluster.validation.text import table
from controller_manager.devcluster.validation.values import validate_positive_quantity

# What volumes and volume claims share

_SHORT: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_MODES: Final = tuple(sorted(_SHORT))


def _short_modes(modes: list[str]) -> str:
    """Return kubectl's abbreviations of access modes, each once, in kubectl's order."""
    return ",".join(short for mode, short in _SHORT.items() if mode in modes)


def _phase(obj: JSON) -> str:
    """Return the phase, or Terminating for an object that is being deleted."""
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return str(obj.get("status", {}).get("phase", ""))


def _access_modes(modes: Sequence[str], field: str) -> Iterator[Cause]:
    """Check that access modes exist and do not contradict each other."""
    if not modes:
        yield required(field, "at least 1 access mode is required")
    for mode in modes:
        if mode not in _SHORT:
            yield not_supported(field, shown(mode), _MODES)
    if "ReadWriteOncePod" in modes and {*modes} & {*_MODES[:3]}:
        detail = "may not use ReadWriteOncePod with other access modes"
        yield forbidden_field(field, detail)


# PersistentVolumeClaim: a request for a volume

_COPIED: Final = (
    ("", "PersistentVolumeClaim"),
    ("snapshot.storage.k8s.io", "VolumeSnapshot"),
)
"""The sources that the older field may name."""

_RESIZES: Final = (
    "ControllerResizeFailed",
    "ControllerResizeInProgress",
    "NodeResizeFailed",
    "NodeResizeInProgress",
    "NodeResizePending",
)


def default_claim(claim: JSON) -> None:
    """Fill in the volume mode and the phase, also of the template of a claim."""
    claim.setdefault("metadata", {})
    spec = claim.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("resources", {})
    claim.setdefault("status", {}).setdefault("phase", "Pending")


def _copy_source(obj: JSON, _: Storage) -> None:
    """Copy the source of the data to that of its two fields that is empty.

    The older field, ``dataSource``, cannot name all kinds of sources. Sources of other
    kinds are removed from it.
    """
    spec = obj["spec"]
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old and not new:
        if (old.get("apiGroup") or "", old.get("kind")) in _COPIED:
            spec["dataSourceRef"] = dict(old)
        else:
            del spec["dataSource"]
    elif new and not old and not new.get("namespace"):
        spec["dataSource"] = dict(new)


def _size(resources: JSON, field: str) -> list[Cause]:
    size, where = resources.get("requests", {}).get("storage"), f"{field}[storage]"
    return validate_positive_quantity(size, where) if size else [required(where)]


CLAIM_SPEC: Final = table("""
    accessModes: access_modes default empty
    selector: selector
    resources: size pointer
    storageClassName, volumeAttributesClassName: subdomain
    volumeMode: enum Block Filesystem default null
    """)


def _update(new: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check that the spec changes only where it may.

    The name of the volume and of the storage class can be set once. A bound claim can
    be made larger.
    """
    before, after = copy.deepcopy(old["spec"]), copy.deepcopy(new["spec"])
    for name in ("volumeName", "storageClassName"):
        if name not in before and name in after:
            before[name] = after[name]
    classes = [each.pop("volumeAttributesClassName", None) for each in (before, after)]
    if new.get("status", {}).get("phase") == "Bound":
        for each in (before, after):
            each["resources"].get("requests", {}).pop("storage", None)
    if before != after:
        why = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims"
        )
        yield forbidden_field(f"{path}spec", f"{why}\n{_differences(before, after)}")
    yield from _smaller(old, new)
    if classes[0] is not None and not classes[1] and classes[0] != classes[1]:
        what = "nil" if classes[1] is None else "an empty string"
        why = f"update from non-nil value to {what} is forbidden"
        yield forbidden_field(f"{path}spec.volumeAttributesClassName", why)


def _differences(before: JSON, after: JSON) -> str:
    return "".join(
        f'-  "{name}": {shown(before.get(name))},\n'
        f'+  "{name}": {shown(after.get(name))},\n'
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )


def _smaller(old: JSON, new: JSON) -> Iterator[Cause]:
    """Check that a claim is not made smaller than its volume."""
    sizes = [each["spec"]["resources"].get("requests", {}) for each in (old, new)]
    before, after = (parse_quantity(each.get("storage", "0")) for each in sizes)
    actual = old.get("status", {}).get("capacity", {})
    if after < before and after <= parse_quantity(actual.get("storage", "0")):
        field = "spec.resources.requests.storage"
        yield forbidden_field(field, "field can not be less than status.capacity")


def _states(states: JSON, field: str) -> Iterator[Cause]:
    for resource, state in states.items():
        if state not in _RESIZES:
            where = field.removesuffix("es")
            yield not_supported(where, shown(resource), _RESIZES)


def _bound_capacity(claim: JSON) -> str:
    capacity = claim.get("status", {}).get("capacity", {}).get("storage", "0")
    return str(capacity) if claim["spec"].get("volumeName") else ""


def _bound_modes(claim: JSON) -> str:
    modes = claim.get("status", {}).get("accessModes", [])
    return _short_modes(modes) if claim["spec"].get("volumeName") else ""


CLAIMS: Final = kind_of(
    "v1/persistentvolumeclaims",
    prepare_for_create=_copy_source,
    apply_defaults=default_claim,
    returns_deleted=True,
    rules=nested("spec", [CLAIM_SPEC]),
    update_rules="hook update",
    status_rules="""
        status:
          capacity{}: quantity
          allocatedResources{}: quantity
          allocatedResourceStatuses: states
        """,
    printer="""
        Name
        Status: phase
        Volume: .spec.volumeName
        Capacity: bound_capacity
        Access Modes: bound_modes
        StorageClass: .spec.storageClassName
        VolumeAttributesClass: .spec.volumeAttributesClassName or <unset>
        Age
        VolumeMode wide: .spec.volumeMode or <unset>
        """,
)

# PersistentVolume: a piece of storage, whose place is immutable

_NOT_SOURCES: Final = frozenset(
    (
        *("accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity"),
        *("persistentVolumeReclaimPolicy", "storageClassName"),
        *("volumeAttributesClassName", "volumeMode"),
    )
)
"""The fields of the spec that are not volume sources."""


def _default_volume(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def _enter_first_phase(obj: JSON, _: Storage) -> None:
    since = obj["metadata"]["creationTimestamp"]
    obj["status"]["lastPhaseTransitionTime"] = since


def _enter_phase(old: JSON, new: JSON, now: datetime) -> None:
    before, after = old.get("status", {}), new["status"]
    since, name = before.get("lastPhaseTransitionTime"), "lastPhaseTransitionTime"
    if before.get("phase") == after.get("phase"):
        if since is not None:
            after.setdefault(name, since)
    elif after.get(name) in (None, since):
        after[name] = format_time(now)


def _source(spec: JSON) -> JSON:
    return {name: spec[name] for name in spec if name not in _NOT_SOURCES}


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


def _moves(spec: JSON, old: JSON) -> bool:
    return _source(spec) != _source(old)


def _modes(volume: JSON) -> str:
    return _short_modes(volume["spec"].get("accessModes", []))


VOLUMES: Final = kind_of(
    "v1/persistentvolumes",
    prepare_for_create=_enter_first_phase,
    stamp=_enter_phase,
    apply_defaults=_default_volume,
    returns_deleted=True,
    rules="""
        spec:
          accessModes: access_modes default empty
          capacity: required capacity
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
    update_rules="""
        spec change:
          self: forbidden at persistentvolumesource if moves
            "spec.persistentvolumesource is immutable after creation"
          volumeMode: immutable
          when outer filled nodeAffinity:
            nodeAffinity: immutable
          self: forbidden at volumeAttributesClassName
            if outer has volumeAttributesClassName and lacks volumeAttributesClassName
            "update from non-nil value to nil is forbidden"
        """,
    printer="""
        Name
        Capacity: .spec.capacity.storage
        Access Modes: modes
        Reclaim Policy: .spec.persistentVolumeReclaimPolicy
        Status: phase
        Claim: {.spec.claimRef.namespace}/{.spec.claimRef.name}
        StorageClass: .spec.storageClassName
        VolumeAttributesClass: .spec.volumeAttributesClassName or <unset>
        Reason: .status.reason
        Age
        VolumeMode wide: .spec.volumeMode or <unset>
        """,
)
