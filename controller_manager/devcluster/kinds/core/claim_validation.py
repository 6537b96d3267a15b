"""Validation of volume claims (core/validation)."""

import copy
from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation.field_values import (
    validate_positive_quantity,
)
from controller_manager.devcluster.validation.text import table

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
