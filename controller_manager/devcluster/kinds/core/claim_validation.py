"""Validation of volume claims (core/validation)."""

import copy
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity
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
    validate_quantity,
)
from controller_manager.devcluster.validation.label_selectors import validate_selector

ACCESS_MODES: Final = (
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
)
VOLUME_MODES: Final = ("Block", "Filesystem")
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


def validate_claim_spec(spec: JSON, field: str = "spec") -> list[Cause]:
    """Check the spec of a claim or of a template of claims."""
    causes = validate_access_modes(spec.get("accessModes", []), field)
    if "selector" in spec:
        causes += validate_selector(spec["selector"], f"{field}.selector")
    size = spec["resources"].get("requests", {}).get("storage")
    where = f"{field}.resources[storage]"
    if size is None:
        causes.append(required(where))
    else:
        causes += validate_positive_quantity(size, where)
    for name in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(name):
            causes += validate_subdomain(spec[name], f"{field}.{name}")
    return causes + validate_volume_mode(spec, field)


def validate_access_modes(modes: list[str], spec_field: str = "spec") -> list[Cause]:
    """Check that access modes exist and do not contradict each other."""
    field = f"{spec_field}.accessModes"
    causes = []
    if not modes:
        causes.append(required(field, "at least 1 access mode is required"))
    causes += [
        not_supported(field, shown(mode), ACCESS_MODES)
        for mode in modes
        if mode not in ACCESS_MODES
    ]
    if "ReadWriteOncePod" in modes and set(modes) & set(ACCESS_MODES[:3]):
        detail = "may not use ReadWriteOncePod with other access modes"
        causes.append(forbidden_field(field, detail))
    return causes


def validate_volume_mode(spec: JSON, field: str = "spec") -> list[Cause]:
    """Check that the volume mode exists."""
    mode = spec.get("volumeMode")
    if mode in VOLUME_MODES:
        return []
    return [not_supported(f"{field}.volumeMode", shown(mode), VOLUME_MODES)]


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


def validate_claim_status(status: JSON) -> list[Cause]:
    """Check the sizes in the status of a claim, and the states of its expansion."""
    causes = []
    for name in ("capacity", "allocatedResources"):
        for resource, amount in (status.get(name) or {}).items():
            causes += validate_quantity(amount, f"status.{name}[{resource}]")
    states = status.get("allocatedResourceStatuses") or {}
    return causes + [
        not_supported("status.allocatedResourceStatus", shown(resource), _RESIZES)
        for resource, state in states.items()
        if state not in _RESIZES
    ]


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
