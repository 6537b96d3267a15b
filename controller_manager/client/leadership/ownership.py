"""Ownership of keys: whether this process may write for a key, and for how long.

Every write is part of the sync of a key, or belongs to no key (an event, a token).
Before each write the fence (`fencing`) asks the ownership for how many seconds this
process may still write for that key.
"""

import math
from typing import Protocol

from .leader_election import LeaderElector


class Ownership(Protocol):
    """Knows the keys that this process may write for.

    Two processes must never own one key at the same time. Therefore the answer is a
    time: it ends before another process can own the key, even if this process has
    lost its connection to the server.
    """

    def seconds_left(self, key: str) -> float:
        """Return for how many seconds from now this process may write for `key`.

        0 means that this process does not own `key`, infinity that no other process
        can ever own it. The empty key stands for writes that belong to no key. This
        is called before each write, and once a second while a write is in progress,
        so it must be cheap.
        """


class PermanentOwnership:
    """Owns every key for ever: no other process writes (``--leader-elect=false``)."""

    def seconds_left(self, key: str) -> float:  # noqa: ARG002 - all keys are alike
        """Return infinity."""
        return math.inf


class LeaseOwnership:
    """Owns every key while this process holds the lease, and no key otherwise.

    Upstream has only this form: the leader does everything. The elector may run in
    another thread: only the time until which it leads is read.
    """

    def __init__(self, elector: LeaderElector) -> None:
        self._elector = elector

    def seconds_left(self, key: str) -> float:  # noqa: ARG002 - all keys are alike
        """Return for how many seconds this process leads if no renewal succeeds."""
        return self._elector.seconds_left()
