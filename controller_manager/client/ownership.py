"""Who may write: asked for each key, answered in seconds.

Every write is made during the sync of a key, or for no key at all (an event, a
token). Before each write the fence (`client.fencing`) asks an ownership whether
this process may write for that key, and for how long.
"""

import math
from typing import Protocol

from controller_manager.client.leader_election import LeaderElector


class Ownership(Protocol):
    """Says which keys this process may write for.

    Two processes must never own one key at once, so the answer is a time: it ends
    before another process can own the key, even if this one is cut off from the
    server and cannot be told.
    """

    def seconds_left(self, key: str) -> float:
        """Return for how many seconds writes for `key` may go on from now.

        0 says that `key` is not owned, infinity that nobody else ever owns it. An
        empty key stands for what belongs to no key. It is asked before each write,
        and again each second while a write is under way, so it must be cheap.
        """


class Always:
    """Owns every key for ever: there is no other process (``--leader-elect=false``)."""

    def seconds_left(self, key: str) -> float:  # noqa: ARG002 - all keys are alike
        """Return infinity."""
        return math.inf


class LeaseOwnership:
    """Owns every key while this process holds the lease, and none else.

    Upstream knows this form alone: one manager leads and does everything.
    """

    def __init__(self, elector: LeaderElector) -> None:
        """Take the candidate for the lease."""
        self._elector = elector

    def seconds_left(self, key: str) -> float:  # noqa: ARG002 - all keys are alike
        """Return for how long this process leads if no renewal succeeds."""
        return self._elector.seconds_left()
