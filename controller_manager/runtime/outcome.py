"""The outcome of a reconcile, which tells the worker loop how to go on with the key."""

from datetime import datetime
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import ObjectReference


class Reason(Struct, frozen=True, rename="camel"):
    """One reason why an object is not yet as its spec wants it.

    `waiting_for` completes the words "waiting for". `since` is the time at which the
    wait began, `None` if it is not known. `object` is the object that must change.
    """

    waiting_for: str
    since: datetime | None
    object: ObjectReference


class SyncError(Exception):
    """A sync that failed for a reason that a user understands.

    The key is retried as after any failure. The error is logged without a traceback.
    """


class Done(Struct, frozen=True):
    """The key needs nothing more until it is added again.

    `requeue_after`, in seconds, adds it again at a known time. `reasons` say what the
    object still waits for.
    """

    requeue_after: float | None = None
    reasons: tuple[Reason, ...] = ()


class Requeue(Struct, frozen=True):
    """The key cannot be synced yet; it is added again after `requeue_after` seconds.

    Unlike `Done` it leaves the key's failures as they are, so that waiting for
    a cache does not reset a backoff. `reason` appears in the log at ``-v=4``.
    """

    requeue_after: float
    reason: str


Outcome = Done | Requeue
"""A reconcile that fails raises; the loop turns that into a rate-limited retry."""

DONE: Final = Done()
