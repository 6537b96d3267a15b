"""Plans what happens to the volumes of a node (pure functions).

Upstream: reconcile of attachdetach/reconciler, csi_attacher.go and operationexecutor. A
loop compares two large maps there; here each change leads to a plan for its node.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.v1 import AttachedVolume
from controller_manager.api.meta import is_deleting
from controller_manager.api.storage.v1 import Attachment

from . import AttachDetachOptions
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


class ForcedDetach(Enum):
    """The reason for a detach that ignores the node; a label of a metric."""

    TIMEOUT = "timeout"
    OUT_OF_SERVICE = "out-of-service"


class VolumePlan(Struct, frozen=True, kw_only=True):
    """What happens to one volume of a node.

    - `tracked`: the data to track for it from now on, `UNTRACKED` for none.
    - `lists`: the node's status should list the volume.
    - `list_by`: the time by which the status should list a volume that is not listed.
    - `creates`, `deletes`: create or delete the attachment.
    - `forced`: the reason to detach although the node may use the volume.
    - `failure`: the reason why the attempt to attach the volume has failed.
    - `reports_multi_attach`: tell users that another node has the volume.
    - `requeue_at`: the time of the next plan, if nothing changes.

    Times are those of the monotonic clock.
    """

    tracked: TrackedVolume = UNTRACKED
    lists: bool = False
    list_by: float | None = None
    creates: bool = False
    deletes: bool = False
    forced: ForcedDetach | None = None
    failure: str = ""
    reports_multi_attach: bool = False
    requeue_at: float | None = None


class NodePlan(Struct, frozen=True):
    """What happens to the volumes of a node, by key, and the list for its status.

    `listed` is `None` if the status is right. `added` are the keys of the volumes that
    the status lists for the first time. `lost` are those that pods need, and that the
    status must not list any more: according to the cache they are detached.
    """

    volumes: Mapping[str, VolumePlan]
    listed: tuple[AttachedVolume, ...] | None = None
    added: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    def requeue_after(self, now: float) -> float | None:
        """Return the seconds until the next plan, none or less if due, or `None`."""
        times = [
            each.requeue_at
            for each in self.volumes.values()
            if each.requeue_at is not None
        ]
        return min(times) - now if times else None


def plan_node(
    view: NodeView,
    tracked: Mapping[str, TrackedVolume],
    now: float,
    options: AttachDetachOptions,
) -> NodePlan:
    """Plan for all volumes of a node, at a time of the monotonic clock.

    Volumes that are attached shortly one after the other are listed by one write.
    """
    planned = {
        key: plan_volume(each, tracked.get(key, UNTRACKED), view, now, options)
        for key, each in view.volumes.items()
    }
    if view.node is None:
        return NodePlan(planned)
    unlisted = {key for key, each in planned.items() if not each.lists}
    stay = tuple(each for each in view.listed if each.name not in unlisted)
    waiting = {
        key: each.list_by for key, each in planned.items() if each.list_by is not None
    }
    lost = tuple(
        key
        for key, each in view.volumes.items()
        if each.is_listed and each.volume is not None and key in unlisted
    )
    is_shorter = len(stay) < len(view.listed)
    if waiting and (is_shorter or min(waiting.values()) <= now):
        added = tuple(AttachedVolume(name=key) for key in waiting)
        return NodePlan(planned, (*stay, *added), tuple(waiting), lost)
    return NodePlan(planned, stay if is_shorter else None, lost=lost)


def plan_volume(
    node_volume: NodeVolume,
    tracked: TrackedVolume,
    view: NodeView,
    now: float,
    options: AttachDetachOptions,
) -> VolumePlan:
    """Plan for one volume of a node, at a time of the monotonic clock."""
    if node_volume.volume is None:
        return _detach(node_volume, tracked, view, now, options)
    tracked = replace(tracked, detaching_since=None)
    if not node_volume.attachment_name:
        return _list(node_volume, tracked, now)
    attachment = node_volume.attachment
    if attachment is not None and attachment.status.attached:
        if node_volume.is_listed:
            return VolumePlan(
                tracked=_settled(tracked, attachment.metadata.uid), lists=True
            )
        if not _is_being_deleted(attachment, tracked):
            return _list_soon(tracked, now)
    trusted = _trust_list(tracked, now, options) if node_volume.is_listed else None
    return trusted or _attach(node_volume, tracked, now)


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
    return TrackedVolume(
        announced=tracked.announced if tracked.announced == uid else "",
        multi_attach_reported=tracked.multi_attach_reported,
    )


def _trust_list(
    tracked: TrackedVolume, now: float, options: AttachDetachOptions
) -> VolumePlan | None:
    """Treat a listed volume as attached for a while: one of two caches may lag."""
    since = now if tracked.lost_since is None else tracked.lost_since
    tracked = replace(tracked, lost_since=since)
    if options.disable_reconcile_sync:
        return VolumePlan(tracked=tracked, lists=True)
    again = since + options.reconcile_sync_period
    if now >= again:
        return None
    return VolumePlan(tracked=tracked, lists=True, requeue_at=again)


def _list_soon(tracked: TrackedVolume, now: float) -> VolumePlan:
    """Wait a moment for other volumes, then list an attached volume in the status."""
    since = now if tracked.attached_since is None else tracked.attached_since
    return VolumePlan(
        tracked=replace(tracked, attached_since=since, lost_since=None),
        list_by=since + BATCH_PERIOD,
        requeue_at=since + BATCH_PERIOD,
    )


def _list(node_volume: NodeVolume, tracked: TrackedVolume, now: float) -> VolumePlan:
    """Let the status list a volume that has no driver, as iSCSI and Fibre Channel."""
    if node_volume.is_listed:
        return VolumePlan(tracked=_settled(tracked, node_volume.key), lists=True)
    if node_volume.multi_attach is not None:
        return _refuse(node_volume, tracked)
    return _list_soon(tracked, now)


def _attach(node_volume: NodeVolume, tracked: TrackedVolume, now: float) -> VolumePlan:
    tracked = replace(tracked, attached_since=None)
    attachment = node_volume.attachment
    if attachment is None:
        if tracked.deleted:
            tracked = replace(tracked, deleted="", not_before=0.0)
        if now < tracked.not_before:
            return VolumePlan(tracked=tracked, requeue_at=tracked.not_before)
        if node_volume.multi_attach is not None:
            return _refuse(node_volume, tracked)
        return VolumePlan(tracked=replace(tracked, trying_since=now), creates=True)
    if _is_being_deleted(attachment, tracked):
        # If another program has deleted the attachment, users are told at once.
        is_known = tracked.deleted == attachment.metadata.uid
        timeout = DRIVER_TIMEOUT if is_known else 0.0
        plan = _wait(tracked, now, timeout, "volume attachment is being deleted")
        known = replace(plan.tracked, deleted=attachment.metadata.uid)
        return replace(plan, tracked=known)
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
) -> VolumePlan:
    """Wait for a driver; report a failure when the timeout of an attempt is over."""
    since = now if tracked.trying_since is None else tracked.trying_since
    if now < since + timeout:
        waiting = replace(tracked, trying_since=since)
        return VolumePlan(tracked=waiting, requeue_at=since + timeout)
    after = failed(tracked, now)
    return VolumePlan(
        tracked=after, failure=failure, requeue_at=after.not_before + timeout
    )


def _refuse(node_volume: NodeVolume, tracked: TrackedVolume) -> VolumePlan:
    """Leave an exclusive volume to the node that has it; tell users once."""
    multi_attach = node_volume.multi_attach
    if multi_attach is None or not multi_attach.stays or tracked.multi_attach_reported:
        return VolumePlan(tracked=tracked)
    return VolumePlan(
        tracked=replace(tracked, multi_attach_reported=True), reports_multi_attach=True
    )


def _detach(
    node_volume: NodeVolume,
    tracked: TrackedVolume,
    view: NodeView,
    now: float,
    options: AttachDetachOptions,
) -> VolumePlan:
    """Detach a volume as soon as its node does not use it, or by force."""
    if node_volume.is_kept:
        kept = TrackedVolume(announced=tracked.announced)
        return VolumePlan(tracked=kept, lists=node_volume.is_listed)
    since = now if tracked.detaching_since is None else tracked.detaching_since
    tracked = TrackedVolume(detaching_since=since, deleted=tracked.deleted)
    forces = not options.disable_force_detach
    has_expired = forces and now >= since + MAX_WAIT_FOR_UNMOUNT
    may_force = view.is_out_of_service or (has_expired and not view.is_ready)
    if node_volume.in_use and not may_force:
        waits = forces and not has_expired
        again = since + MAX_WAIT_FOR_UNMOUNT if waits else None
        return VolumePlan(
            tracked=tracked, lists=node_volume.is_listed, requeue_at=again
        )
    forced: ForcedDetach | None = None
    if has_expired and not view.is_ready:
        forced = ForcedDetach.TIMEOUT
    elif view.is_out_of_service:
        forced = ForcedDetach.OUT_OF_SERVICE
    deletes = _must_delete(node_volume, tracked)
    return VolumePlan(tracked=tracked, deletes=deletes, forced=forced)


def _must_delete(node_volume: NodeVolume, tracked: TrackedVolume) -> bool:
    """Tell whether to delete an attachment now; the cache may not show a listed one."""
    if not node_volume.attachment_name:
        return False
    if node_volume.attachment is None:
        return node_volume.is_listed or node_volume.is_pending
    return not _is_being_deleted(node_volume.attachment, tracked)


def _is_being_deleted(attachment: Attachment, tracked: TrackedVolume) -> bool:
    """Tell whether an attachment is being deleted; the cache may not show that yet."""
    return is_deleting(attachment) or tracked.deleted == attachment.metadata.uid
