"""Writes that the cache does not show yet: `Expectations` and `Takeover`.

With a stale cache a controller would create a pod twice. After a burst of creates
and deletes it therefore waits until the watch has shown them all (controller_utils.go).

The cache of a standby lags behind the API server, usually by milliseconds, and by
minutes when a watch has stopped to send events. This process records its own writes
(see `consistency`); to see those of the former leader it must read from the API
server.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from controller_manager.api.meta import AnyResource, KubeObject, key_of
from controller_manager.api.scalars import parse_time
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

    def expect(
        self, key: str, creations: int = 0, deletions: AbstractSet[str] = frozenset()
    ) -> None:
        """Expect these adds and deletions by uid, too; the time begins again."""
        former = self._expected.get(key, _Expected(0.0))
        self._expected[key] = _Expected(
            self._clock.monotonic(),
            creations=max(former.creations, 0) + creations,
            deletions={*former.deletions, *deletions},
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
        """Expect no more adds: the cache is as new as the response to every create."""
        # An object that it does not show was deleted while the watch was broken.
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


_SKEW: Final = timedelta(seconds=5)
"""The largest difference between the clocks of several API servers. It includes one
second, because timestamps are in whole seconds."""


class Takeover:
    """Tells which objects must be read from the API server before writing for them.

    Those are the objects that were created before this process led, each once.
    Upstream does not need this: its caches start after it was elected.
    """

    def __init__(self, server_clock: Clock, *, elected: bool) -> None:
        """Take a clock with the API server's time, which sets creation timestamps.

        Without an election (`elected`) there is no former leader.
        """
        self._clock = server_clock
        self._elected = elected
        self._since: datetime | None = None
        self._rechecked: set[str] = set()

    def start_leading(self) -> None:
        """Note that this process leads from now on."""
        if self._elected:
            self._since = self._clock.now()

    def must_recheck(self, obj: KubeObject) -> bool:
        """Tell whether to read from the API server before writing for `obj`."""
        if self._since is None or key_of(obj) in self._rechecked:
            return False
        created = obj.metadata.creation_timestamp
        return created is None or parse_time(created) <= self._since + _SKEW

    def rechecked(self, key: str) -> None:
        """Note that the object of `key` was read from the API server."""
        self._rechecked.add(key)

    def forget(self, key: str) -> None:
        """Drop the key of an object that is gone."""
        self._rechecked.discard(key)


class StaleSyncs:
    """Counts syncs that wait for a cache: ``PREFIX_stale_sync_skips_total``."""

    def __init__(
        self, registry: CollectorRegistry, prefix: str, *resources: AnyResource
    ) -> None:
        self._skips = Counter(
            f"{prefix}_stale_sync_skips_total",
            "Syncs put off because a cache was older than the last write",
            ["group", "resource"],
            registry=registry,
        )
        for each in resources:
            self._skips.labels(each.group, each.plural)

    def count(self, resource: AnyResource) -> None:
        """Count a sync that was put off because the cache of `resource` is stale."""
        self._skips.labels(resource.group, resource.plural).inc()
