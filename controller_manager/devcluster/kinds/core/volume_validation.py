"""Validation of volumes (core/validation)."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import validate_subdomain
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation.field_values import (
    validate_positive_quantity,
    validate_unchanged,
)

from .claim_validation import validate_access_modes, validate_volume_mode

_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
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


def validate_volume(volume: JSON) -> list[Cause]:
    """Check the spec of a volume."""
    spec = volume["spec"]
    causes = validate_access_modes(spec.get("accessModes", []))
    capacity = spec.get("capacity", {})
    if not capacity:
        causes.append(required("spec.capacity"))
    elif capacity.keys() != {"storage"}:
        names = shown(sorted(capacity))
        causes.append(not_supported("spec.capacity", names, ("storage",)))
    for name, amount in capacity.items():
        causes += validate_positive_quantity(amount, f"spec.capacity[{name}]")
    sources = sorted(_source(spec))
    causes += [
        forbidden_field(f"spec.{name}", "may not specify more than 1 volume type")
        for name in sources[1:]
    ]
    if not sources:
        causes.append(required("spec", "must specify a volume type"))
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in _RECLAIM_POLICIES:
        where = "spec.persistentVolumeReclaimPolicy"
        causes.append(not_supported(where, shown(policy), _RECLAIM_POLICIES))
    if spec.get("storageClassName"):
        causes += validate_subdomain(spec["storageClassName"], "spec.storageClassName")
    return causes + validate_volume_mode(spec) + _validate_attributes_class(spec)


def _validate_attributes_class(spec: JSON) -> list[Cause]:
    name, where = (
        spec.get("volumeAttributesClassName"),
        "spec.volumeAttributesClassName",
    )
    if name is None:
        return []
    causes = [required(where, "an empty string is disallowed")]
    if name:
        causes = validate_subdomain(name, where)
    if "csi" not in spec:
        why = "has to be specified when using volumeAttributesClassName"
        causes.append(required("spec.csi", why))
    return causes


def validate_volume_update(before: JSON, after: JSON) -> list[Cause]:
    """Check that the storage and the volume mode stay."""
    causes = []
    if _source(before) != _source(after):
        detail = "spec.persistentvolumesource is immutable after creation"
        causes.append(forbidden_field("spec.persistentvolumesource", detail))
    causes += validate_unchanged(before, after, "spec", "volumeMode")
    if before.get("nodeAffinity"):
        causes += validate_unchanged(before, after, "spec", "nodeAffinity")
    name = "volumeAttributesClassName"
    if name in before and name not in after:
        why = "update from non-nil value to nil is forbidden"
        causes.append(forbidden_field(f"spec.{name}", why))
    return causes


def _source(spec: JSON) -> JSON:
    return {name: spec[name] for name in spec if name not in _NOT_SOURCES}
