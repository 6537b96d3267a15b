"""The event correlator, which merges similar events and drops too frequent ones.

Upstream: client-go tools/record events_cache.go. Nothing here awaits.
"""

from collections import OrderedDict
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct, field

from controller_manager.api.core.v1 import Event
from controller_manager.clock import Clock
from controller_manager.workqueue.ratelimiters import TokenBucket

ValueT = TypeVar("ValueT")

CACHE_SIZE: Final = 4096
"""The most keys of each cache; the least recently used key is dropped first."""

AGGREGATE_AFTER: Final = 10
"""The number of distinct messages from which on similar events share one event."""

AGGREGATE_INTERVAL: Final = 600.0
"""Seconds without a similar event after which the count starts again."""

SPAM_BURST: Final = 25
SPAM_QPS: Final = 1 / 300
"""Limit for events of one source about one object: 25, then one every 5 minutes."""

COMBINED: Final = "(combined from similar events): "

Key = tuple[str, ...]


class _LRU(Generic[ValueT]):
    def __init__(self) -> None:
        self._entries: OrderedDict[Key, ValueT] = OrderedDict()

    def get(self, key: Key) -> ValueT | None:
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: Key, value: ValueT) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > CACHE_SIZE:
            self._entries.popitem(last=False)


class _Similar(Struct):
    last_seen: float
    messages: set[str] = field(default_factory=set)


class _Observed(Struct, frozen=True):
    name: str
    count: int
    first_timestamp: str | None


class Occurrence(Struct, frozen=True):
    """One occurrence of an event: its source with its object, and its content."""

    source: Key
    type: str
    reason: str
    field_path: str
    message: str
    name: str
    time: str | None


class Merged(Struct, frozen=True):
    """The event that an occurrence belongs to: a new one if it is the first."""

    name: str
    message: str
    count: int
    first_timestamp: str | None
    key: Key


class Correlated(Struct, frozen=True):
    """The write of an event: it is created if `patch` is `None`, else patched."""

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

    Events are similar if they have the same source, object, type and reason. If
    similar events within ten minutes have ten or more distinct messages, they are
    written as one event, whose message says so. If an event was written before, its
    count is increased. Each source may write 25 events about one object, and one more
    every 5 minutes; events beyond that are dropped.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._similar: _LRU[_Similar] = _LRU()
        self._observed: _LRU[_Observed] = _LRU()
        self._buckets: _LRU[TokenBucket] = _LRU()

    def correlate(self, event: Event) -> Correlated | None:
        """Return the write for `event`, `None` to drop it."""
        merged = self.merged(
            Occurrence(
                _object_key(event),
                event.type,
                event.reason,
                event.involved_object.field_path,
                event.message,
                event.metadata.name,
                event.first_timestamp,
            )
        )
        return None if merged is None else _correlated(event, merged)

    def merged(self, occurrence: Occurrence) -> Merged | None:
        """Return the event of an occurrence, `None` to drop it."""
        message, key = self._aggregate(occurrence)
        merged = self._count(occurrence, message, key)
        return merged if self._allowed(occurrence.source) else None

    def update_state(self, correlated: Correlated, stored: Event) -> None:
        """Remember the event as stored, so that the next one increases its count.

        Upstream: EventCorrelator.UpdateState.
        """
        self._observed.put(
            correlated.key,
            _Observed(stored.metadata.name, stored.count, stored.first_timestamp),
        )

    def _aggregate(self, occurrence: Occurrence) -> tuple[str, Key]:
        """Return the message and the key of the event that is written."""
        similar_key = (*occurrence.source, occurrence.type, occurrence.reason)
        now = self._clock.monotonic()
        similar = self._similar.get(similar_key)
        if similar is None or now - similar.last_seen > AGGREGATE_INTERVAL:
            similar = _Similar(now)
            self._similar.put(similar_key, similar)
        similar.last_seen = now
        message = occurrence.message
        similar.messages.add(message)
        if len(similar.messages) < AGGREGATE_AFTER:
            return message, (*similar_key, occurrence.field_path, message)
        similar.messages.pop()  # keep the set from growing past the threshold
        return COMBINED + message, similar_key

    def _count(self, occurrence: Occurrence, message: str, key: Key) -> Merged:
        known = self._observed.get(key)
        name, first, count = occurrence.name, occurrence.time, 1
        if known is not None:
            name, first, count = known.name, known.first_timestamp, known.count + 1
        self._observed.put(key, _Observed(name, count, first))
        return Merged(name, message, count, first, key)

    def _allowed(self, source: Key) -> bool:
        bucket = self._buckets.get(source)
        if bucket is None:
            bucket = TokenBucket(SPAM_QPS, SPAM_BURST, self._clock)
            self._buckets.put(source, bucket)
        return bucket.try_take()


def _correlated(event: Event, merged: Merged) -> Correlated:
    if merged.message != event.message:
        event = msgspec.structs.replace(event, message=merged.message)
    if merged.count == 1:
        return Correlated(event, None, merged.key)
    counted = msgspec.structs.replace(
        event,
        metadata=msgspec.structs.replace(event.metadata, name=merged.name),
        count=merged.count,
        first_timestamp=merged.first_timestamp,
    )
    patch = {
        "count": merged.count,
        "lastTimestamp": event.last_timestamp,
        "message": merged.message,
    }
    return Correlated(counted, patch, merged.key)
