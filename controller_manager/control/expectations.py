"""What a controller has asked for and not yet seen (controller_utils.go).

A cache that lags would make a controller create a pod twice. After a burst of
creates and deletes it therefore waits until the watch has shown them all.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from controller_manager.clock import Clock

TIMEOUT: Final = 300.0
"""Seconds after which an expectation is no longer believed in."""


class State(Enum):
    """What the expectations for a key allow."""

    FULFILLED = "everything asked for was seen"
    PENDING = "something asked for has not been seen yet"
    DOUBTFUL = "what became of something asked for is not known"


@dataclass(slots=True)
class _Expected:
    since: float
    creations: int = 0
    deletions: set[str] = field(default_factory=set)
    doubtful: bool = False


class Expectations:
    """Creations by number and deletions by uid, for each key.

    Upstream acts on its cache once an expectation is five minutes old, and
    creates surplus pods if the watch lags for longer (kubernetes#129795). Here
    it becomes `DOUBTFUL` then, as it does at once when a write got no answer:
    the controller must look at the API server before it acts again.
    """

    def __init__(self, clock: Clock) -> None:
        """Take the clock."""
        self._clock = clock
        self._expected: dict[str, _Expected] = {}

    def __len__(self) -> int:
        """Return for how many keys something is expected."""
        return len(self._expected)

    def state(self, key: str) -> State:
        """Return whether `key` may act."""
        expected = self._expected.get(key)
        if expected is None:
            return State.FULFILLED
        if expected.doubtful:
            return State.DOUBTFUL
        if expected.creations <= 0 and not expected.deletions:
            return State.FULFILLED
        if self._clock.monotonic() - expected.since > TIMEOUT:
            return State.DOUBTFUL
        return State.PENDING

    def expect_creations(self, key: str, count: int) -> None:
        """Expect `count` adds, from now on."""
        self._expected[key] = _Expected(self._clock.monotonic(), creations=count)

    def expect_deletions(self, key: str, uids: set[str]) -> None:
        """Expect these objects to go, from now on."""
        self._expected[key] = _Expected(self._clock.monotonic(), deletions=uids)

    def creations_settled(self, key: str, count: int = 1) -> None:
        """Expect `count` adds less: they were seen, or will never come."""
        expected = self._expected.get(key)
        if expected is not None:
            expected.creations -= count

    def cache_caught_up(self, key: str) -> None:
        """Expect no more adds: the cache is as new as every answer to a create.

        What is not in it then came and went unseen, while a watch was broken.
        """
        expected = self._expected.get(key)
        if expected is not None:
            expected.creations = 0

    def deletion_settled(self, key: str, uid: str) -> None:
        """Expect the deletion of `uid` no longer: seen, or refused."""
        expected = self._expected.get(key)
        if expected is not None:
            expected.deletions.discard(uid)

    def doubt(self, key: str) -> None:
        """Note that a write got no answer: it may have been applied or not."""
        expected = self._expected.setdefault(key, _Expected(self._clock.monotonic()))
        expected.doubtful = True

    def forget(self, key: str) -> None:
        """Expect nothing of `key`."""
        self._expected.pop(key, None)
