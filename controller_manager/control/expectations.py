"""Expectations: writes that the cache does not show yet (controller_utils.go).

With a stale cache a controller would create a pod twice. After a burst of creates
and deletes it therefore waits until the watch has shown them all.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from controller_manager.clock import Clock

TIMEOUT: Final = 300.0
"""Seconds after which the outcome of an expected write counts as unknown."""


class State(Enum):
    """The state of the expectations for a key."""

    FULFILLED = "the cache shows all writes"
    PENDING = "the cache does not show some write yet"
    UNKNOWN = "the outcome of some write is not known"


@dataclass(slots=True)
class _Expected:
    since: float
    creations: int = 0
    deletions: set[str] = field(default_factory=set)
    outcome_unknown: bool = False


class Expectations:
    """Creations by number and deletions by uid, for each key.

    Upstream trusts its cache once an expectation is five minutes old, and creates
    surplus pods if the watch lags for longer (kubernetes#129795). Here the state
    becomes `UNKNOWN` then; it becomes `UNKNOWN` immediately when a write got no
    response. The controller must then read from the API server before it writes
    again.
    """

    def __init__(self, clock: Clock) -> None:
        """Take the clock; start with no expectations."""
        self._clock = clock
        self._expected: dict[str, _Expected] = {}

    def __len__(self) -> int:
        """Return the number of keys that have expectations."""
        return len(self._expected)

    def state(self, key: str) -> State:
        """Return the state of the expectations for `key`."""
        expected = self._expected.get(key)
        if expected is None:
            return State.FULFILLED
        if expected.outcome_unknown:
            return State.UNKNOWN
        if expected.creations <= 0 and not expected.deletions:
            return State.FULFILLED
        if self._clock.monotonic() - expected.since > TIMEOUT:
            return State.UNKNOWN
        return State.PENDING

    def expect_creations(self, key: str, count: int) -> None:
        """Expect `count` adds, from now on."""
        self._expected[key] = _Expected(self._clock.monotonic(), creations=count)

    def expect_deletions(self, key: str, uids: set[str]) -> None:
        """Expect the deletion of these objects, from now on."""
        self._expected[key] = _Expected(self._clock.monotonic(), deletions=uids)

    def expect_more(self, key: str, creations: int, deletions: set[str]) -> None:
        """Expect these adds and deletions, too; the time begins again."""
        former = self._expected.get(key, _Expected(0.0))
        self._expected[key] = _Expected(
            self._clock.monotonic(),
            creations=max(former.creations, 0) + creations,
            deletions=former.deletions | deletions,
            outcome_unknown=former.outcome_unknown,
        )

    def awaited_deletions(self, key: str) -> frozenset[str]:
        """Return the uids of the objects whose deletion is expected."""
        expected = self._expected.get(key)
        return frozenset() if expected is None else frozenset(expected.deletions)

    def creations_settled(self, key: str, count: int = 1) -> None:
        """Expect `count` fewer adds: the watch has shown them, or they failed."""
        expected = self._expected.get(key)
        if expected is not None:
            expected.creations -= count

    def cache_caught_up(self, key: str) -> None:
        """Expect no more adds: the cache is as new as the response to every create.

        An object that it does not show was deleted while the watch was broken.
        """
        expected = self._expected.get(key)
        if expected is not None:
            expected.creations = 0

    def deletion_settled(self, key: str, uid: str) -> None:
        """Stop to expect the deletion of `uid`: it was seen, or it failed."""
        expected = self._expected.get(key)
        if expected is not None:
            expected.deletions.discard(uid)

    def outcome_unknown(self, key: str) -> None:
        """Note that a write got no response: it may have been applied or not."""
        expected = self._expected.setdefault(key, _Expected(self._clock.monotonic()))
        expected.outcome_unknown = True

    def forget(self, key: str) -> None:
        """Expect nothing of `key`."""
        self._expected.pop(key, None)
