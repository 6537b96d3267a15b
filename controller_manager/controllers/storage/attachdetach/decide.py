"""Decides about the volumes of a node (pure functions).

Upstream: reconcile of attachdetach/reconciler, Attach and Detach of
pkg/volume/csi/csi_attacher.go, and the generators of operationexecutor. There a loop
compares two large maps ten times a second. Here each change of a volume, pod, node or
attachment leads to a decision about the node.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from controller_manager.api.core.v1 import AttachedVolume
from controller_manager.api.meta import is_deleting
from controller_manager.api.storage.v1 import Attachment

from .actions import ForcedDetach, NodeActions, Operation, VolumeAction
from .options import Settings
from .tracker import UNTRACKED, TrackedVolume
from .view import NodeView, NodeVolume

MAX_WAIT_FOR_UNMOUNT: Final = 360.0
"""Seconds after which a volume is detached from an unhealthy node by force."""

DRIVER_TIMEOUT: Final = 120.0
"""Seconds that a CSI driver may take to attach, or to detach."""

BATCH_PERIOD: Final = 0.1
"""Seconds in which the newly attached volumes of a node wait for one common write."""

_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 122.0
"""Seconds between two attempts to attach: 0.5, 1, 2 … 64, 122."""


def decide_node(
    view: NodeView,
    tracked: Mapping[str, TrackedVolume],
    now: float,
    settings: Settings,
) -> NodeActions:
    """Decide about all volumes of a node, at a time of the monotonic clock.

    Volumes that are attached shortly one after the other are listed by one write. If
    the list changes for another reason, they are listed at once.
    """
    by_key = {
        key: decide_volume(each, tracked.get(key, UNTRACKED), view, now, settings)
        for key, each in view.volumes.items()
    }
    if view.node is None:
        return NodeActions(by_key)
    stay = tuple(
        each
        for each in view.listed
        if each.name not in by_key or by_key[each.name].lists
    )
    waiting = {
        key: each.list_by for key, each in by_key.items() if each.list_by is not None
    }
    lost = tuple(
        key
        for key, each in view.volumes.items()
        if each.is_listed and each.volume is not None and not by_key[key].lists
    )
    is_shorter = len(stay) < len(view.listed)
    if waiting and (is_shorter or min(waiting.values()) <= now):
        added = tuple(AttachedVolume(name=key) for key in waiting)
        return NodeActions(by_key, (*stay, *added), tuple(waiting), lost)
    return NodeActions(by_key, stay if is_shorter else None, lost=lost)


def decide_volume(
    node_volume: NodeVolume,
    tracked: TrackedVolume,
    view: NodeView,
    now: float,
    settings: Settings,
) -> VolumeAction:
    """Decide about one volume of a node, at a time of the monotonic clock."""
    if node_volume.volume is None:
        return _detach(node_volume, tracked, view, now, settings)
    tracked = replace(tracked, detaching_since=None)
    if not node_volume.attachment_name:
        return _list(node_volume, tracked, now)
    attachment = node_volume.attachment
    if attachment is not None and attachment.status.attached:
        if node_volume.is_listed:
            return VolumeAction(
                tracked=_settled(tracked, attachment.metadata.uid), lists=True
            )
        if not _is_being_deleted(attachment, tracked):
            return _list_soon(tracked, now)
    if node_volume.is_listed and not _is_lost(tracked, now, settings):
        return _trust_list(tracked, now, settings)
    return _attach(node_volume, tracked, now)


def failed(tracked: TrackedVolume, now: float) -> TrackedVolume:
    """Return the tracked data of a volume after an attempt to attach it has failed."""
    delay = min(_FIRST_DELAY * 2.0 ** min(tracked.failures, 64), _LONGEST_DELAY)
    return replace(
        tracked,
        failures=tracked.failures + 1,
        not_before=now + delay,
        trying_since=now + delay,
        attached_since=None,
    )


def listed(tracked: TrackedVolume, uid: str) -> TrackedVolume:
    """Return the tracked data of a volume that the status has just begun to list."""
    return replace(_settled(tracked, uid), announced=uid)


def _settled(tracked: TrackedVolume, uid: str) -> TrackedVolume:
    """Return the tracked data of a volume that is attached and listed."""
    return TrackedVolume(
        announced=tracked.announced if tracked.announced == uid else "",
        multi_attach_reported=tracked.multi_attach_reported,
    )


def _is_lost(tracked: TrackedVolume, now: float, settings: Settings) -> bool:
    since, after = tracked.lost_since, settings.verify_after
    return after is not None and since is not None and now >= since + after


def _trust_list(tracked: TrackedVolume, now: float, settings: Settings) -> VolumeAction:
    """Treat a listed volume as attached, until its attachment is lost for too long.

    One of the two caches may lag. Upstream compares once in each period of its flag.
    """
    since = now if tracked.lost_since is None else tracked.lost_since
    after = settings.verify_after
    return VolumeAction(
        tracked=replace(tracked, lost_since=since),
        lists=True,
        requeue_at=None if after is None else since + after,
    )


def _list_soon(tracked: TrackedVolume, now: float) -> VolumeAction:
    """Wait a moment for other volumes, then list an attached volume in the status."""
    since = now if tracked.attached_since is None else tracked.attached_since
    return VolumeAction(
        tracked=replace(tracked, attached_since=since, lost_since=None),
        list_by=since + BATCH_PERIOD,
        requeue_at=since + BATCH_PERIOD,
    )


def _list(node_volume: NodeVolume, tracked: TrackedVolume, now: float) -> VolumeAction:
    """Attach a volume without a driver: the node's status only has to list it.

    Upstream: the attachers of iSCSI and Fibre Channel do nothing.
    """
    if node_volume.is_listed:
        return VolumeAction(tracked=_settled(tracked, node_volume.key), lists=True)
    if node_volume.multi_attach is not None:
        return _refuse(node_volume, tracked)
    return _list_soon(tracked, now)


def _attach(
    node_volume: NodeVolume, tracked: TrackedVolume, now: float
) -> VolumeAction:
    """Create an attachment, or wait for the driver that attaches the volume."""
    tracked = replace(tracked, attached_since=None)
    attachment = node_volume.attachment
    if attachment is None:
        if tracked.deleted:
            tracked = replace(tracked, deleted="", not_before=0.0)
        if now < tracked.not_before:
            return VolumeAction(tracked=tracked, requeue_at=tracked.not_before)
        if node_volume.multi_attach is not None:
            return _refuse(node_volume, tracked)
        return VolumeAction(
            tracked=replace(tracked, trying_since=now), operation=Operation.CREATE
        )
    if _is_being_deleted(attachment, tracked):
        # If another program has deleted the attachment, users are told at once.
        is_known = tracked.deleted == attachment.metadata.uid
        timeout = DRIVER_TIMEOUT if is_known else 0.0
        action = _wait(tracked, now, timeout, "volume attachment is being deleted")
        known = replace(action.tracked, deleted=attachment.metadata.uid)
        return replace(action, tracked=known)
    if (error := attachment.status.attach_error) is not None:
        return _wait(tracked, now, 0.0, error.message)
    csi = node_volume.volume.csi if node_volume.volume is not None else None
    driver, handle = (csi.driver, csi.handle) if csi is not None else ("", "")
    waiting = (
        f"timed out waiting for external-attacher of {driver} CSI driver "
        f"to attach volume {handle}"
    )
    return _wait(tracked, now, DRIVER_TIMEOUT, waiting)


def _wait(
    tracked: TrackedVolume, now: float, timeout: float, failure: str
) -> VolumeAction:
    """Wait for a driver; report a failure when the timeout of an attempt is over."""
    since = now if tracked.trying_since is None else tracked.trying_since
    if now < since + timeout:
        waiting = replace(tracked, trying_since=since)
        return VolumeAction(tracked=waiting, requeue_at=since + timeout)
    after = failed(tracked, now)
    return VolumeAction(
        tracked=after, failure=failure, requeue_at=after.not_before + timeout
    )


def _refuse(node_volume: NodeVolume, tracked: TrackedVolume) -> VolumeAction:
    """Leave an exclusive volume to the node that has it; tell users once."""
    multi_attach = node_volume.multi_attach
    if multi_attach is None or not multi_attach.stays or tracked.multi_attach_reported:
        return VolumeAction(tracked=tracked)
    return VolumeAction(
        tracked=replace(tracked, multi_attach_reported=True), reports_multi_attach=True
    )


def _detach(
    node_volume: NodeVolume,
    tracked: TrackedVolume,
    view: NodeView,
    now: float,
    settings: Settings,
) -> VolumeAction:
    """Detach a volume as soon as its node does not use it, or by force."""
    if node_volume.is_kept:
        kept = TrackedVolume(announced=tracked.announced)
        return VolumeAction(tracked=kept, lists=node_volume.is_listed)
    since = now if tracked.detaching_since is None else tracked.detaching_since
    tracked = TrackedVolume(detaching_since=since, deleted=tracked.deleted)
    has_expired = settings.forces and now >= since + MAX_WAIT_FOR_UNMOUNT
    may_force = view.is_out_of_service or (has_expired and not view.is_ready)
    if node_volume.in_use and not may_force:
        waits = settings.forces and not has_expired
        again = since + MAX_WAIT_FOR_UNMOUNT if waits else None
        return VolumeAction(
            tracked=tracked, lists=node_volume.is_listed, requeue_at=again
        )
    forced: ForcedDetach | None = None
    if has_expired and not view.is_ready:
        forced = ForcedDetach.TIMEOUT
    elif view.is_out_of_service:
        forced = ForcedDetach.OUT_OF_SERVICE
    operation = (
        Operation.DELETE if _must_delete(node_volume, tracked) else Operation.NONE
    )
    return VolumeAction(tracked=tracked, operation=operation, forced=forced)


def _must_delete(node_volume: NodeVolume, tracked: TrackedVolume) -> bool:
    """Tell whether to delete the attachment of a volume now.

    If the node lists the volume, an attachment may exist that the cache does not show.
    """
    if not node_volume.attachment_name:
        return False
    if node_volume.attachment is None:
        return node_volume.is_listed or node_volume.is_pending
    return not _is_being_deleted(node_volume.attachment, tracked)


def _is_being_deleted(attachment: Attachment, tracked: TrackedVolume) -> bool:
    """Tell whether an attachment is being deleted; the cache may not show that yet."""
    return is_deleting(attachment) or tracked.deleted == attachment.metadata.uid
