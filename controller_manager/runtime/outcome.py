"""What a reconcile says to the worker loop."""

from dataclasses import dataclass
from typing import Final


class SyncError(Exception):
    """A sync that cannot go on for a reason that a user understands.

    It is retried like any failure, and logged without a traceback.
    """


@dataclass(frozen=True, slots=True)
class Done:
    """The key needs nothing more until it is added again.

    `requeue_after`, in seconds, asks for another look at a known time.
    """

    requeue_after: float | None = None


@dataclass(frozen=True, slots=True)
class Requeue:
    """The key cannot be looked at yet; it is added again in `seconds`.

    Unlike `Done` it leaves the key's failures as they are, so that waiting for
    a cache does not reset a backoff. `reason` appears in the log at ``-v=4``.
    """

    seconds: float
    reason: str


Outcome = Done | Requeue
"""A reconcile that fails raises; the loop turns that into a rate-limited retry."""

DONE: Final = Done()
