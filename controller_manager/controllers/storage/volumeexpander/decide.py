"""Decides about one sync of a bound claim (syncHandler of expand_controller.go).

CSI drivers, also those that have replaced an in-tree plugin, have their own resizers:
users are told to wait for them. The kubelet expands only volumes of flex volume
plugins; this controller prepares them. Upstream: expandAndRecoverFunction of
pkg/volume/util/operationexecutor/operation_generator.go.

The status of a claim while its volume is being resized (volume/util/resize_util.go).

All functions are pure: they return a new status, or a patch from one to another.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.claims import (
    STORAGE,
    ClaimCondition,
    ClaimStatus,
    PersistentVolumeClaim,
    requested_storage,
)
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.meta import annotations_of, key_of
from controller_manager.api.quantity import Quantity, parse_quantity
from controller_manager.api.times import format_time
from controller_manager.control.csi_migration import plugin_of

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


def resizing(status: ClaimStatus, size: str, now: datetime) -> ClaimStatus:
    """Return the status of a claim whose volume is being expanded to `size`.

    Upstream: MarkControllerReisizeInProgress.
    """
    return replace(
        status,
        conditions=_with_condition(status, _RESIZING, "", now, keep=False),
        allocated_resources={**(status.allocated_resources or {}), STORAGE: size},
        allocated_resource_statuses=_with_state(status, CONTROLLER_IN_PROGRESS),
    )


def awaiting_node(status: ClaimStatus, now: datetime) -> ClaimStatus:
    """Return the status of a claim whose file system a kubelet has to expand.

    Upstream: MarkForFSResize.
    """
    return replace(
        status,
        conditions=_with_condition(
            status, _FILE_SYSTEM_PENDING, _WAITING_FOR_POD, now, keep=True
        ),
        allocated_resource_statuses=_with_state(status, NODE_PENDING),
    )


def resized(status: ClaimStatus, size: str) -> ClaimStatus:
    """Return the status of a claim whose volume has been expanded to `size`.

    Upstream: MarkFSResizeFinished.
    """
    states = dict(status.allocated_resource_statuses or {})
    states.pop(STORAGE, None)
    return replace(
        status,
        capacity={**(status.capacity or {}), STORAGE: size},
        conditions=_others(status),
        allocated_resource_statuses=states or None,
    )


def patch_of(old: ClaimStatus, new: ClaimStatus) -> dict[str, Any]:
    """Return the merge patch between two statuses, empty if they are the same."""
    patch: dict[str, Any] = {}
    if (old.conditions or ()) != (new.conditions or ()):
        conditions = new.conditions or ()
        patch["conditions"] = [msgspec.to_builtins(each) for each in conditions]
    for name, before, after in (
        ("capacity", old.capacity, new.capacity),
        ("allocatedResources", old.allocated_resources, new.allocated_resources),
        (
            "allocatedResourceStatuses",
            old.allocated_resource_statuses,
            new.allocated_resource_statuses,
        ),
    ):
        if changed := _changed(before or {}, after or {}):
            patch[name] = changed
    return patch


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str | None]:
    names = dict.fromkeys((*old, *new))
    return {each: new.get(each) for each in names if old.get(each) != new.get(each)}


def _with_state(status: ClaimStatus, state: str) -> dict[str, str]:
    return {**(status.allocated_resource_statuses or {}), STORAGE: state}


def _others(status: ClaimStatus) -> tuple[ClaimCondition, ...]:
    """Return the conditions that are not about resizing."""
    conditions = status.conditions or ()
    return tuple(each for each in conditions if each.type not in _RESIZE_CONDITIONS)


def _with_condition(
    status: ClaimStatus, name: str, message: str, now: datetime, *, keep: bool
) -> tuple[ClaimCondition, ...]:
    """Return the conditions with one that is True (MergeResizeConditionOnPVC).

    A condition that is True already is kept. With `keep`, the other conditions about
    resizing are kept, too.
    """
    added = ClaimCondition(
        type=name,
        status="True",
        message=message,
        last_transition_time=format_time(now),
    )
    merged: list[ClaimCondition] = []
    for each in status.conditions or ():
        if each.type == name:
            added = each if each.status == added.status else added
            merged.append(added)
        elif keep or each.type not in _RESIZE_CONDITIONS:
            merged.append(each)
    return tuple(merged) if added in merged else (*merged, added)


RESIZER: Final = "volume.kubernetes.io/storage-resizer"
"""The annotation of a claim with the name of the resizer of its volume."""

PRE_RESIZE_CAPACITY: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"
"""The annotation of a volume with the capacity that its file system has until a kubelet
has expanded it: a claim that is bound to the volume later is expanded, too."""

_BLOCK: Final = "Block"
_ALLOCATED: Final = frozenset(
    (CONTROLLER_IN_PROGRESS, NODE_PENDING, NODE_IN_PROGRESS, NODE_INFEASIBLE)
)


class ClaimPatch(Struct, frozen=True):
    """A change of the claim's status; `failure` is the text if it fails."""

    patch: Mapping[str, Any]
    failure: str


class VolumePatch(Struct, frozen=True):
    """A change of the volume; `failure` is the text of an event about its failure."""

    patch: Mapping[str, Any]
    failure: str


class Expansion(Struct, frozen=True):
    """The actions of one sync of a claim: an event, and writes in this order.

    `external` is the text of the event if an external resizer expands the volume.
    `is_finished` says that the volume is expanded when the writes are done. `plugin` is
    the plugin of a volume that is expanded here: metrics count the attempt.
    """

    external: str = ""
    writes: tuple[ClaimPatch | VolumePatch, ...] = ()
    is_finished: bool = False
    plugin: str = ""


NOTHING: Final = Expansion()


def amount(resources: Mapping[str, str] | None) -> Quantity:
    """Return the amount of storage in a map of resources, 0 for none."""
    return parse_quantity((resources or {}).get(STORAGE) or "0")


def requested(claim: PersistentVolumeClaim) -> Quantity:
    """Return the amount of storage that a claim requests, 0 for none."""
    return parse_quantity(requested_storage(claim) or "0")


def wants_more(claim: PersistentVolumeClaim) -> bool:
    """Tell whether a claim requests more storage than it has."""
    return requested(claim) > amount(claim.status.capacity)


def decide(
    claim: PersistentVolumeClaim, volume: PersistentVolume, now: datetime
) -> Expansion:
    """Return the actions for a claim that is bound to this volume."""
    is_marked = PRE_RESIZE_CAPACITY in annotations_of(volume.metadata)
    if not wants_more(claim) and not is_marked:
        return NOTHING
    if (plugin := plugin_of(volume.spec)) is not None:
        migrated = f"CSI migration enabled for {plugin.name}"
        return Expansion(
            external=f"{migrated}; waiting for external resizer to expand the pvc",
            writes=_named(claim, plugin.driver),
        )
    flex = volume.spec.flex_volume
    if flex is None:
        return Expansion("waiting for an external controller to expand this PVC")
    if is_marked and _is_expanded(claim, volume):
        return Expansion(writes=(_unmark(volume),))
    return replace(_expansion(claim, volume, now), plugin=flex.driver)


def _is_expanded(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Tell whether the kubelet has expanded the file system (isNodeExpandComplete)."""
    has = amount(claim.status.capacity)
    return has >= requested(claim) and has >= amount(volume.spec.capacity)


def _expansion(
    claim: PersistentVolumeClaim, volume: PersistentVolume, now: datetime
) -> Expansion:
    """Return the next actions, from the state in the claim's status."""
    status, wanted = claim.status, requested(claim)
    state = (status.allocated_resource_statuses or {}).get(STORAGE, "")
    allocated = (status.allocated_resources or {}).get(STORAGE)
    if amount(volume.spec.capacity) < wanted:
        goes_on = state in _ALLOCATED
    elif state in (NODE_PENDING, NODE_IN_PROGRESS):
        # The kubelet continues. The mark is missing if this process ended before
        # writing it.
        return Expansion(writes=_mark(claim, volume))
    elif state == NODE_INFEASIBLE:
        return Expansion(writes=_await_node(claim, volume, status, now))
    else:
        goes_on = state in ("", CONTROLLER_IN_PROGRESS, CONTROLLER_INFEASIBLE)
    size = allocated if goes_on and allocated is not None else str(wanted)
    return _expand(claim, volume, size, now)


def _expand(
    claim: PersistentVolumeClaim, volume: PersistentVolume, size: str, now: datetime
) -> Expansion:
    """Return the writes by which a volume gets its size.

    Only the kubelet expands the volume, so this always succeeds. A volume that is
    larger already keeps its capacity; upstream would lower it.
    """
    key, begun = key_of(claim), resizing(claim.status, size, now)
    driver = volume.spec.flex_volume.driver if volume.spec.flex_volume else ""
    patch = {
        **_annotation(claim, driver),
        **_status(claim.status, begun),
    }
    failure = f"error updating pvc {key} with resize in progress"
    writes: list[ClaimPatch | VolumePatch] = []
    if patch:
        writes.append(ClaimPatch(patch, failure))
    if amount(volume.spec.capacity) < parse_quantity(size):
        capacity = {"spec": {"capacity": {STORAGE: size}}}
        writes.append(VolumePatch(capacity, f"error updating pv for pvc {key}"))
    if volume.spec.volume_mode == _BLOCK:
        done = _status(begun, resized(begun, size))
        writes.append(ClaimPatch(done, f"error marking pvc {key} as resized"))
        return Expansion(writes=tuple(writes), is_finished=True)
    return Expansion(writes=(*writes, *_await_node(claim, volume, begun, now)))


def _await_node(
    claim: PersistentVolumeClaim,
    volume: PersistentVolume,
    status: ClaimStatus,
    now: datetime,
) -> tuple[ClaimPatch | VolumePatch, ...]:
    patch = _status(status, awaiting_node(status, now))
    failure = f"error marking pvc {key_of(claim)} for node expansion"
    return (ClaimPatch(patch, failure), *_mark(claim, volume))


def _mark(
    claim: PersistentVolumeClaim, volume: PersistentVolume
) -> tuple[VolumePatch, ...]:
    """Return the write that stores the present capacity, if the volume lacks it.

    A block volume has no file system, and needs no such write.
    """
    metadata = volume.metadata
    if (
        PRE_RESIZE_CAPACITY in annotations_of(metadata)
        or volume.spec.volume_mode == _BLOCK
    ):
        return ()
    has = str(amount(claim.status.capacity))
    failure = (
        f"error updating pv {metadata.name} annotation ({PRE_RESIZE_CAPACITY}) with "
        f"pre-resize capacity {has}"
    )
    patch = {"metadata": {"annotations": {PRE_RESIZE_CAPACITY: has}}}
    return (VolumePatch(patch, failure),)


def _unmark(volume: PersistentVolume) -> VolumePatch:
    patch = {"metadata": {"annotations": {PRE_RESIZE_CAPACITY: None}}}
    return VolumePatch(patch, f"error updating pv {volume.metadata.name}")


def _annotation(claim: PersistentVolumeClaim, resizer: str) -> dict[str, Any]:
    """Return the part of a patch that names the resizer, empty if it is named."""
    if annotations_of(claim.metadata).get(RESIZER) == resizer:
        return {}
    return {"metadata": {"annotations": {RESIZER: resizer}}}


def _named(claim: PersistentVolumeClaim, resizer: str) -> tuple[ClaimPatch, ...]:
    patch = _annotation(claim, resizer)
    failure = f"error setting resizer annotation to pvc {key_of(claim)}, with error"
    return (ClaimPatch(patch, failure),) if patch else ()


def _status(old: ClaimStatus, new: ClaimStatus) -> dict[str, Any]:
    """Return the part of a patch that changes the status, empty if it is the same."""
    patch = patch_of(old, new)
    return {"status": patch} if patch else {}
