"""How many similar events become few (client-go tools/record events_cache.go).

Pure bookkeeping over a clock's readings: nothing here awaits.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec

from controller_manager.api.core.v1 import Event
from controller_manager.clock import Clock
from controller_manager.workqueue.ratelimiters import TokenBucket

ValueT = TypeVar("ValueT")

CACHE_SIZE: Final = 4096
"""How many keys each cache remembers, least recently used going first."""

AGGREGATE_AFTER: Final = 10
"""Distinct messages of similar events before they share one event."""

AGGREGATE_INTERVAL: Final = 600.0
"""Seconds without a similar event after which counting starts anew."""

SPAM_BURST: Final = 25
SPAM_QPS: Final = 1 / 300
"""Events of one source about one object: 25 at once, then one in 5 minutes."""

COMBINED: Final = "(combined from similar events): "

Key = tuple[str, ...]


class _LRU(Generic[ValueT]):
    def __init__(self) -> None:
        self._entries: OrderedDict[Key, ValueT] = OrderedDict()

    def get(self, key: Key) -> ValueT | None:
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def put(self, key: Key, value: ValueT) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > CACHE_SIZE:
            self._entries.popitem(last=False)


@dataclass(slots=True)
class _Similar:
    last_seen: float
    messages: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Observed:
    name: str
    count: int
    first_timestamp: str | None


@dataclass(frozen=True, slots=True)
class Correlated:
    """What to write: `event` if `patch` is `None`, else a patch of it."""

    event: Event
    patch: dict[str, Any] | None
    key: Key


def _object_key(event: Event) -> Key:
    involved = event.involved_object
    return (
        event.source.component,
        event.source.host,
        involved.kind,
        involved.namespace,
        involved.name,
        involved.uid,
        involved.api_version,
    )


class Correlator:
    """Aggregates, counts and drops events.

    From the tenth distinct message on, similar events (same source, object,
    type and reason) within ten minutes are written as one whose message says
    so. An event that was written before is counted up. What exceeds a burst of
    25 a source and object, refilled by one in 5 minutes, is dropped.
    """

    def __init__(self, clock: Clock) -> None:
        """Take the clock."""
        self._clock = clock
        self._similar: _LRU[_Similar] = _LRU()
        self._observed: _LRU[_Observed] = _LRU()
        self._buckets: _LRU[TokenBucket] = _LRU()

    def correlate(self, event: Event) -> Correlated | None:
        """Return what to write for `event`, `None` to drop it."""
        event, key = self._aggregate(event)
        correlated = self._count(event, key)
        return correlated if self._allowed(event) else None

    def written(self, correlated: Correlated, stored: Event) -> None:
        """Remember the event as stored, so that the next one counts it up."""
        self._observed.put(
            correlated.key,
            _Observed(stored.metadata.name, stored.count, stored.first_timestamp),
        )

    def _aggregate(self, event: Event) -> tuple[Event, Key]:
        similar_key = (*_object_key(event), event.type, event.reason)
        now = self._clock.monotonic()
        similar = self._similar.get(similar_key)
        if similar is None or now - similar.last_seen > AGGREGATE_INTERVAL:
            similar = _Similar(now)
        similar.last_seen = now
        similar.messages.add(event.message)
        self._similar.put(similar_key, similar)
        if len(similar.messages) < AGGREGATE_AFTER:
            return event, (*similar_key, event.message)
        similar.messages.pop()  # keep the set from growing past the threshold
        combined = msgspec.structs.replace(event, message=COMBINED + event.message)
        return combined, similar_key

    def _count(self, event: Event, key: Key) -> Correlated:
        known = self._observed.get(key)
        if known is None:
            self._observed.put(
                key, _Observed(event.metadata.name, 1, event.first_timestamp)
            )
            return Correlated(event, None, key)
        count = known.count + 1
        self._observed.put(key, _Observed(known.name, count, known.first_timestamp))
        counted = msgspec.structs.replace(
            event,
            metadata=msgspec.structs.replace(event.metadata, name=known.name),
            count=count,
            first_timestamp=known.first_timestamp,
        )
        patch = {
            "count": count,
            "lastTimestamp": event.last_timestamp,
            "message": event.message,
        }
        return Correlated(counted, patch, key)

    def _allowed(self, event: Event) -> bool:
        key = _object_key(event)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = TokenBucket(SPAM_QPS, SPAM_BURST, self._clock)
            self._buckets.put(key, bucket)
        return bucket.try_take()
