"""The outcome of a reconcile, which tells the worker loop how to go on with the key."""

from typing import Final

from msgspec import Struct


class SyncError(Exception):
    """A sync that failed for a reason that a user understands.

    The key is retried as after any failure. The error is logged without a traceback.
    """


class Done(Struct, frozen=True):
    """The key needs nothing more until it is added again.

    `requeue_after`, in seconds, adds it again at a known time.
    """

    requeue_after: float | None = None


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
