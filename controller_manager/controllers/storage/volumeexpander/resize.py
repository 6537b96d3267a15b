"""The sizes of a claim and its volume, and the status of a claim that is expanded.

Upstream: pkg/volume/util/resize_util.go.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from controller_manager.api.core.claims import (
    STORAGE,
    ClaimCondition,
    ClaimStatus,
    PersistentVolumeClaim,
    requested_storage,
)
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.quantity import Quantity, parse_quantity
from controller_manager.api.scalars import format_time

CONTROLLER_IN_PROGRESS: Final = "ControllerResizeInProgress"
CONTROLLER_INFEASIBLE: Final = "ControllerResizeInfeasible"
NODE_PENDING: Final = "NodeResizePending"
NODE_IN_PROGRESS: Final = "NodeResizeInProgress"
NODE_INFEASIBLE: Final = "NodeResizeInfeasible"

_RESIZING: Final = "Resizing"
_FILE_SYSTEM_PENDING: Final = "FileSystemResizePending"
_RESIZE_CONDITIONS: Final = frozenset(
    (_RESIZING, _FILE_SYSTEM_PENDING, "ControllerResizeError", "NodeResizeError")
)
_WAITING_FOR_POD: Final = (
    "Waiting for user to (re-)start a pod to finish file system resize of volume on "
    "node."
)
_ALLOCATED: Final = frozenset(
    (CONTROLLER_IN_PROGRESS, NODE_PENDING, NODE_IN_PROGRESS, NODE_INFEASIBLE)
)


def amount(resources: Mapping[str, str] | None) -> Quantity:
    """Return the amount of storage in a map of resources, 0 for none."""
    return parse_quantity((resources or {}).get(STORAGE) or "0")


def requested(claim: PersistentVolumeClaim) -> Quantity:
    """Return the amount of storage that a claim requests, 0 for none."""
    return parse_quantity(requested_storage(claim) or "0")


def wants_more(claim: PersistentVolumeClaim) -> bool:
    """Tell whether a claim requests more storage than it has."""
    return requested(claim) > amount(claim.status.capacity)


def is_node_expand_complete(
    claim: PersistentVolumeClaim, volume: PersistentVolume
) -> bool:
    """Tell whether the kubelet has expanded the file system."""
    has = amount(claim.status.capacity)
    return has >= requested(claim) and has >= amount(volume.spec.capacity)


def state_of(claim: PersistentVolumeClaim) -> str:
    """Return the state of a claim's expansion, "" for none."""
    return (claim.status.allocated_resource_statuses or {}).get(STORAGE, "")


def size_to_allocate(claim: PersistentVolumeClaim, volume: PersistentVolume) -> str:
    """Return the size of the next expansion: an allocated one, if that goes on."""
    state = state_of(claim)
    allocated = (claim.status.allocated_resources or {}).get(STORAGE)
    if amount(volume.spec.capacity) < requested(claim):
        goes_on = state in _ALLOCATED
    else:
        goes_on = state in ("", CONTROLLER_IN_PROGRESS, CONTROLLER_INFEASIBLE)
    return allocated if goes_on and allocated is not None else str(requested(claim))


def resizing(status: ClaimStatus, size: str, now: datetime) -> ClaimStatus:
    """Return the status while a volume grows (MarkControllerReisizeInProgress)."""
    return replace(
        status,
        conditions=_with_condition(status, _RESIZING, "", now, keep=False),
        allocated_resources={**(status.allocated_resources or {}), STORAGE: size},
        allocated_resource_statuses=_with_state(status, CONTROLLER_IN_PROGRESS),
    )


def awaiting_node(status: ClaimStatus, now: datetime) -> ClaimStatus:
    """Return the status while a kubelet expands the file system (MarkForFSResize)."""
    return replace(
        status,
        conditions=_with_condition(
            status, _FILE_SYSTEM_PENDING, _WAITING_FOR_POD, now, keep=True
        ),
        allocated_resource_statuses=_with_state(status, NODE_PENDING),
    )


def resized(status: ClaimStatus, size: str) -> ClaimStatus:
    """Return the status after a volume has grown to `size` (MarkFSResizeFinished)."""
    states = dict(status.allocated_resource_statuses or {})
    states.pop(STORAGE, None)
    return replace(
        status,
        capacity={**(status.capacity or {}), STORAGE: size},
        conditions=_others(status),
        allocated_resource_statuses=states or None,
    )


def status_patch(old: ClaimStatus, new: ClaimStatus) -> dict[str, Any]:
    """Return the part of a merge patch that changes a status, empty for no change."""
    patch: dict[str, Any] = {}
    if (old.conditions or ()) != (new.conditions or ()):
        conditions = new.conditions or ()
        patch["conditions"] = [msgspec.to_builtins(each) for each in conditions]
    patch |= _changed("capacity", old.capacity, new.capacity)
    before, after = old.allocated_resources, new.allocated_resources
    patch |= _changed("allocatedResources", before, after)
    before, after = old.allocated_resource_statuses, new.allocated_resource_statuses
    patch |= _changed("allocatedResourceStatuses", before, after)
    return {"status": patch} if patch else {}


def _changed(
    field: str, before: Mapping[str, str] | None, after: Mapping[str, str] | None
) -> dict[str, Any]:
    old, new = before or {}, after or {}
    names = dict.fromkeys((*old, *new))
    changed = {key: new.get(key) for key in names if old.get(key) != new.get(key)}
    return {field: changed} if changed else {}


def _with_state(status: ClaimStatus, state: str) -> dict[str, str]:
    return {**(status.allocated_resource_statuses or {}), STORAGE: state}


def _others(status: ClaimStatus) -> tuple[ClaimCondition, ...]:
    conditions = status.conditions or ()
    return tuple(each for each in conditions if each.type not in _RESIZE_CONDITIONS)


def _with_condition(
    status: ClaimStatus, name: str, message: str, now: datetime, *, keep: bool
) -> tuple[ClaimCondition, ...]:
    """Return the conditions with one that is True (MergeResizeConditionOnPVC).

    With `keep`, the other conditions about resizing are kept, too.
    """
    time = format_time(now)
    added = ClaimCondition(
        type=name, status="True", message=message, last_transition_time=time
    )
    merged: list[ClaimCondition] = []
    for each in status.conditions or ():
        if each.type == name:
            added = each if each.status == added.status else added
            merged.append(added)
        elif keep or each.type not in _RESIZE_CONDITIONS:
            merged.append(each)
    return tuple(merged) if added in merged else (*merged, added)
