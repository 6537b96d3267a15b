"""Decides what to do about one place (pure functions).

Upstream: reconcile of attachdetach/reconciler, Attach and Detach of
pkg/volume/csi/csi_attacher.go, and the generators of operationexecutor. There a loop
compares two large maps ten times a second. Here a change of a place has it decided.
"""

from enum import Enum, auto
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.meta import is_deleting
from controller_manager.api.storage.v1 import Attachment
from controller_manager.controllers.storage.attachdetach.places import (
    NOTHING,
    Memory,
    NodeView,
    Place,
)

MAX_WAIT_FOR_UNMOUNT: Final = 360.0
"""Seconds after which a volume is detached from an unhealthy node by force."""

PATIENCE: Final = 120.0
"""Seconds that a CSI driver may take to attach, or to detach."""

GATHERING: Final = 0.1
"""Seconds in which newly attached volumes are gathered for one write."""

_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 122.0
"""Seconds between two attempts to attach: 0.5, 1, 2 … 64, 122."""


class Do(Enum):
    """What to do about the attachment of a place."""

    NOTHING = auto()
    CREATE = auto()
    DELETE = auto()


class Reason(Enum):
    """Why a volume is detached without asking its node; a label of a metric."""

    TIMEOUT = "timeout"
    OUT_OF_SERVICE = "out-of-service"


class Rules(Struct, frozen=True):
    """What the flags say.

    `verify_after`: after how many seconds a lost attachment is made again, `None` for
    never. `forces`: whether volumes are detached by force after a time.
    """

    verify_after: float | None = 60.0
    forces: bool = True


class Step(Struct, frozen=True, kw_only=True):
    """What to do about a place.

    - `memory`: what to remember of it, `NOTHING` to forget it.
    - `lists`: whether the node's status should list it.
    - `joins_at`: if it is not listed yet, when it should be, at the latest.
    - `forced`: why the node is not asked whether it uses the volume.
    - `failure`: why the attempt to attach it has failed.
    - `is_refused`: users are to be told that another node has it.
    - `requeue_at`: when to decide again, if nothing changes.
    """

    memory: Memory = NOTHING
    lists: bool = False
    joins_at: float | None = None
    do: Do = Do.NOTHING
    forced: Reason | None = None
    failure: str = ""
    is_refused: bool = False
    requeue_at: float | None = None


def decide(
    place: Place, memory: Memory, view: NodeView, now: float, rules: Rules
) -> Step:
    """Return what to do about a place of a node, at a time of the monotonic clock."""
    if place.volume is None:
        return _detach(place, memory, view, now, rules)
    memory = replace(memory, detaching_since=None)
    if not place.attachment_name:
        return _list(place, memory, now)
    attachment = place.attachment
    if attachment is not None and attachment.status.attached:
        if place.is_listed:
            return Step(memory=_settled(memory, attachment.metadata.uid), lists=True)
        if not _is_going(attachment, memory):
            return _join(memory, now)
    if place.is_listed and not _is_lost(memory, now, rules):
        return _trust(memory, now, rules)
    return _attach(place, memory, now)


def failed(memory: Memory, now: float) -> Memory:
    """Return the memory of a place after an attempt to attach it has failed."""
    delay = min(_FIRST_DELAY * 2.0 ** min(memory.failures, 64), _LONGEST_DELAY)
    return replace(
        memory,
        failures=memory.failures + 1,
        not_before=now + delay,
        trying_since=now + delay,
        attached_since=None,
    )


def listed(memory: Memory, uid: str) -> Memory:
    """Return the memory of a place that the node's status has just begun to list."""
    return replace(_settled(memory, uid), announced=uid)


def _settled(memory: Memory, uid: str) -> Memory:
    """Return the memory of a place where all is well."""
    return Memory(
        announced=memory.announced if memory.announced == uid else "",
        refusal_reported=memory.refusal_reported,
    )


def _is_lost(memory: Memory, now: float, rules: Rules) -> bool:
    since, after = memory.lost_since, rules.verify_after
    return after is not None and since is not None and now >= since + after


def _trust(memory: Memory, now: float, rules: Rules) -> Step:
    """Believe for a while that a listed volume is attached.

    Of two caches one may lag. Upstream looks once in each period of its flag.
    """
    since = now if memory.lost_since is None else memory.lost_since
    after = rules.verify_after
    return Step(
        memory=replace(memory, lost_since=since),
        lists=True,
        requeue_at=None if after is None else since + after,
    )


def _join(memory: Memory, now: float) -> Step:
    """Have the node's status list a volume that is attached."""
    since = now if memory.attached_since is None else memory.attached_since
    return Step(
        memory=replace(memory, attached_since=since, lost_since=None),
        joins_at=since + GATHERING,
        requeue_at=since + GATHERING,
    )


def _list(place: Place, memory: Memory, now: float) -> Step:
    """Attach a volume without a driver: it is enough that the node's status lists it.

    Upstream: the attachers of iSCSI and Fibre Channel do nothing.
    """
    if place.is_listed:
        return Step(memory=_settled(memory, place.key), lists=True)
    if place.block is not None:
        return _refuse(place, memory)
    return _join(memory, now)


def _attach(place: Place, memory: Memory, now: float) -> Step:
    """Create an attachment, or wait for what its driver says."""
    memory = replace(memory, attached_since=None)
    attachment = place.attachment
    if attachment is None:
        if memory.deleted:
            memory = replace(memory, deleted="", not_before=0.0)
        if now < memory.not_before:
            return Step(memory=memory, requeue_at=memory.not_before)
        if place.block is not None:
            return _refuse(place, memory)
        return Step(memory=replace(memory, trying_since=now), do=Do.CREATE)
    if _is_going(attachment, memory):
        # What somebody else has deleted is reported at once; then it is known.
        is_known = memory.deleted == attachment.metadata.uid
        patience = PATIENCE if is_known else 0.0
        step = _wait(memory, now, patience, "volume attachment is being deleted")
        known = replace(step.memory, deleted=attachment.metadata.uid)
        return replace(step, memory=known)
    if (error := attachment.status.attach_error) is not None:
        return _wait(memory, now, 0.0, error.message)
    csi = place.volume.csi if place.volume is not None else None
    driver, handle = (csi.driver, csi.handle) if csi is not None else ("", "")
    waiting = (
        f"timed out waiting for external-attacher of {driver} CSI driver "
        f"to attach volume {handle}"
    )
    return _wait(memory, now, PATIENCE, waiting)


def _wait(memory: Memory, now: float, patience: float, failure: str) -> Step:
    """Wait for a driver; report a failure at the end of each attempt."""
    since = now if memory.trying_since is None else memory.trying_since
    if now < since + patience:
        waiting = replace(memory, trying_since=since)
        return Step(memory=waiting, requeue_at=since + patience)
    after = failed(memory, now)
    return Step(memory=after, failure=failure, requeue_at=after.not_before + patience)


def _refuse(place: Place, memory: Memory) -> Step:
    """Leave an exclusive volume to the node that has it; tell users once."""
    block = place.block
    if block is None or not block.stays or memory.refusal_reported:
        return Step(memory=memory)
    return Step(memory=replace(memory, refusal_reported=True), is_refused=True)


def _detach(
    place: Place, memory: Memory, view: NodeView, now: float, rules: Rules
) -> Step:
    """Detach a volume as soon as its node does not use it, or by force."""
    if place.is_kept:
        kept = Memory(announced=memory.announced)
        return Step(memory=kept, lists=place.is_listed)
    since = now if memory.detaching_since is None else memory.detaching_since
    memory = Memory(detaching_since=since, deleted=memory.deleted)
    has_expired = rules.forces and now >= since + MAX_WAIT_FOR_UNMOUNT
    may_force = view.is_out_of_service or (has_expired and not view.is_ready)
    if place.in_use and not may_force:
        waits = rules.forces and not has_expired
        again = since + MAX_WAIT_FOR_UNMOUNT if waits else None
        return Step(memory=memory, lists=place.is_listed, requeue_at=again)
    forced: Reason | None = None
    if has_expired and not view.is_ready:
        forced = Reason.TIMEOUT
    elif view.is_out_of_service:
        forced = Reason.OUT_OF_SERVICE
    do = Do.DELETE if _is_to_be_deleted(place, memory) else Do.NOTHING
    return Step(memory=memory, do=do, forced=forced)


def _is_to_be_deleted(place: Place, memory: Memory) -> bool:
    """Tell whether the attachment of a place is to be deleted now.

    One that the cache does not show may exist if the node lists the volume.
    """
    if not place.attachment_name:
        return False
    if place.attachment is None:
        return place.is_listed or place.is_pending
    return not _is_going(place.attachment, memory)


def _is_going(attachment: Attachment, memory: Memory) -> bool:
    """Tell whether an attachment is being deleted; the cache may not show it yet."""
    return is_deleting(attachment) or memory.deleted == attachment.metadata.uid
