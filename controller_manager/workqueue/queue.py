"""The work queue, from which the workers of a controller take keys."""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Container, Iterator
from typing import Final, Literal, Protocol

from msgspec import Struct

from controller_manager.api.meta import group_of_key
from controller_manager.clock import Clock

from .ratelimiters import (
    Backoff,
    ExponentialBackoff,
    Retries,
    TokenBucket,
    retry_bucket,
)

_FEW: Final = 64
"""The number of entries of dropped deadlines that may always stay."""

_MOVED: Final = 4
"""The number of entries of an old heap that each change of a deadline looks at."""

_Entry = tuple[float, int, str]
"""A deadline, a number that keeps the order of equal deadlines, and a key."""


class Deadlines:
    """Keys with the deadline at which each is due; the earliest deadline wins.

    An entry of a heap counts only while its key has its deadline. When most entries do
    not count any more, the heap becomes the old one, and each later call moves a few of
    its entries that count: no call takes long, and a deadline that was dropped does not
    stay in memory until then, which may be a year.
    """

    def __init__(self) -> None:
        self._deadlines: dict[str, float] = {}
        self._heap: list[_Entry] = []
        self._old: list[_Entry] = []
        self._sequence = itertools.count()

    def __len__(self) -> int:
        """Return how many keys have a deadline."""
        return len(self._deadlines)

    def entries(self) -> int:
        """Return how many entries are kept, whether they count or not."""
        return len(self._heap) + len(self._old)

    def put(self, key: str, deadline: float) -> bool:
        """Set a deadline; tell whether it is earlier than the one that the key had."""
        known = self._deadlines.get(key)
        if known is not None and known <= deadline:
            return False
        self._deadlines[key] = deadline
        heapq.heappush(self._heap, (deadline, next(self._sequence), key))
        self._move()
        return True

    def when(self, key: str) -> float | None:
        """Return the deadline of a key, `None` if it has none."""
        return self._deadlines.get(key)

    def discard(self, key: str) -> None:
        """Drop the deadline of a key, if it has one."""
        self._deadlines.pop(key, None)
        self._move()

    def _move(self) -> None:
        """Move a few entries that count from the old heap, and drop the others."""
        if not self._old and len(self._heap) > 2 * len(self._deadlines) + _FEW:
            self._old, self._heap = self._heap, self._old
        for _ in range(min(_MOVED, len(self._old))):
            entry = self._old.pop()  # a heap without its last entry is a heap
            if self._counts(entry):
                heapq.heappush(self._heap, entry)

    def clear(self) -> None:
        """Drop all deadlines."""
        self._deadlines.clear()
        self._heap.clear()
        self._old.clear()

    def first(self) -> float | None:
        """Return the earliest deadline, `None` for none."""
        heap = self._first_heap()
        return heap[0][0] if heap else None

    def _first_heap(self) -> list[_Entry]:
        """Return the heap that begins with the earliest entry; it may be empty."""
        for heap in (self._heap, self._old):
            while heap and not self._counts(heap[0]):
                heapq.heappop(heap)
        if self._old and (not self._heap or self._old[0] < self._heap[0]):
            return self._old
        return self._heap

    def pop_until(self, now: float) -> Iterator[str]:
        """Yield the keys that are due, each once."""
        while (heap := self._first_heap()) and heap[0][0] <= now:
            _, _, key = heapq.heappop(heap)
            del self._deadlines[key]
            yield key

    def _counts(self, entry: _Entry) -> bool:
        return self._deadlines.get(entry[2]) == entry[0]


class QueueMetrics(Protocol):
    """Hooks that a queue calls; durations are in seconds."""

    def added(self, depth: int) -> None:
        """Count an accepted add; `depth` items wait now."""

    def got(self, waited: float, depth: int) -> None:
        """Observe how long an item waited until it was taken; `depth` still wait."""

    def done(self, worked: float) -> None:
        """Observe how long the processing of an item took."""

    def retried(self) -> None:
        """Count a delayed add."""

    def dropped(self) -> None:
        """Record that no item waits any more: the queue was shut down."""

    def running(self, unfinished: float, longest: float) -> None:
        """Set the total and the longest age of the items in progress."""


class NoMetrics:
    """Hooks that do nothing."""

    def added(self, depth: int) -> None:
        """Ignore."""

    def got(self, waited: float, depth: int) -> None:
        """Ignore."""

    def done(self, worked: float) -> None:
        """Ignore."""

    def retried(self) -> None:
        """Ignore."""

    def dropped(self) -> None:
        """Ignore."""

    def running(self, unfinished: float, longest: float) -> None:
        """Ignore."""


State = Literal["Processing", "Queued", "Retrying", "BackingOff", "Delayed", "Idle"]
"""The state of a key.

- Processing: a worker syncs it now.
- Queued: it waits for a worker.
- Retrying: its backoff has ended, and it waits for the rate limit of retries.
- BackingOff: it failed, and its backoff has not ended.
- Delayed: it is added again at a known time.
- Idle: it is synced again only when an object changes.
"""


class KeyState(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The state of a key, and the times that go with it, in seconds from now.

    - `for_seconds`: the time since it was taken or added, if it is processed or queued.
    - `next_sync`: the time until it is added again, if that is known; a key that is
      processed or queued may be added again later, too.
    - `retries`: the number of failures since its last success.
    """

    state: State
    for_seconds: float | None = None
    next_sync: float | None = None
    retries: int = 0


_RETRY_SHARE: Final = 4
"""While other keys wait, at most one of this many taken keys is a retry."""

_TIMER_TOLERANCE: Final = 1e-5
"""Seconds by which a timer may fire before the clock reaches its deadline."""


class ShutDown(Exception):
    """The queue is shut down: the worker should end."""


class WorkQueue:
    """A deduplicating, delaying, rate-limiting queue of keys.

    Its promises, which are client-go's:

    - Fair: keys are processed in the order in which they were added.
    - Stingy: two workers never process the same key at the same time, and a key that
      is added several times before it is taken is processed once.
    - Multiple consumers and producers: if a key is added while it is processed, it is
      processed again afterwards.
    - Shutdown: further adds are ignored, and every consumer gets `ShutDown`.

    One promise differs: a shut-down drops the keys that wait. client-go's ShutDown
    still hands them out, but the context of their syncs has ended by then.

    Of several delayed adds of a key, the earliest deadline wins. An immediate add does
    not cancel a delayed one. A key that failed waits for its own backoff, then for the
    rate limit of all retries (see `Retries`). Keys that are no retries go first. A
    success cancels a retry that still waits.
    """

    def __init__(
        self,
        clock: Clock,
        backoff: Backoff | None = None,
        metrics: QueueMetrics | None = None,
        *,
        retries: TokenBucket | None = None,
        is_open: bool = True,
        name: str = "",
        on_add: Callable[[str, float], None] | None = None,
    ) -> None:
        """`name` is the queue's name in metrics.

        `on_add` is called for each request to add a key, with the seconds after which
        it is added. `backoff` is the wait of each key after a failure, `retries` limits
        the rate of the retries of all keys; both default to upstream's values. With
        `is_open` false, the queue ignores adds until `open` is called.
        """
        self.name = name
        self._is_open = is_open
        self._on_add = on_add
        self._clock = clock
        self._backoff = backoff or ExponentialBackoff()
        self._retries = Retries(retries or retry_bucket(clock))
        self._metrics = metrics or NoMetrics()
        self._queue: deque[str] = deque()
        self._held: dict[str, deque[str]] = {}
        """Keys that came first and could not be taken then, by namespace."""
        self._may_take_held = False
        self._dirty: set[str] = set()
        self._processing: dict[str, float] = {}
        self._added_at: dict[str, float] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._taken_since_retry = 0
        self._shutting_down = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._delayed = Deadlines()
        self._backing_off = Deadlines()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many keys wait to be taken now."""
        return len(self._queue) + sum(map(len, self._held.values()))

    @property
    def delayed(self) -> int:
        """The number of keys that wait for a deadline, a backoff or a retry token."""
        return len(self._delayed) + len(self._backing_off) + len(self._retries)

    @property
    def is_idle(self) -> bool:
        """True if no key waits to be taken and no key is in progress."""
        return self._idle.is_set()

    def add(self, key: str) -> None:
        """Add `key`; do nothing if it already waits."""
        self._tell(key, 0.0)
        if self._add(key):
            self._wake_one()

    def _add(self, key: str, *, first: bool = False) -> bool:
        """Add a key; tell whether a worker can take it now."""
        if not self._is_open or self._shutting_down or key in self._dirty:
            return False
        self._dirty.add(key)
        self._added_at.setdefault(key, self._clock.monotonic())
        self._idle.clear()
        can_be_taken = key not in self._processing
        if can_be_taken and first:
            self._queue.appendleft(key)
        elif can_be_taken:
            self._queue.append(key)
        self._metrics.added(len(self))
        return can_be_taken

    async def get(self) -> str:
        """Wait for the next key and return it; the caller must call `done` for it.

        Raises ShutDown once the queue is shut down.
        """
        while True:
            await self.wait()
            if (key := self.take()) is not None:
                return key

    async def wait(self) -> None:
        """Wait until a key can be taken.

        Raises ShutDown once the queue is shut down.
        """
        while not (self._queue or self._may_take_held or self._retries.is_ready):
            if self._shutting_down:
                raise ShutDown
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                # Another consumer must get the wake-up of this cancelled one.
                if getter.done() and not getter.cancelled():
                    self._wake_one()
                raise

    def take(self, barred: Container[str] = ()) -> str | None:
        """Return the next key, `None` for none; the caller must call `done` for it.

        Keys of the namespaces that are `barred` keep their places, and are looked at
        again when `done` is called.
        """
        self._admit_retry()
        key = self._next(barred)
        if key is None:
            return None
        now = self._clock.monotonic()
        self._dirty.discard(key)
        self._processing[key] = now
        self._metrics.got(now - self._added_at.pop(key, now), len(self))
        return key

    def _next(self, barred: Container[str]) -> str | None:
        """Remove and return the first key that is not barred, the held ones first."""
        self._may_take_held = False
        for namespace, keys in self._held.items():
            if namespace not in barred:
                key = keys.popleft()
                if not keys:
                    del self._held[namespace]
                self._look_at_held()
                return key
        while self._queue:
            key = self._queue.popleft()
            namespace = group_of_key(key)
            if namespace not in barred:
                return key
            self._held.setdefault(namespace, deque()).append(key)
        return None

    def _look_at_held(self) -> None:
        if self._held:
            self._may_take_held = True
            self._wake_one()

    def _admit_retry(self) -> None:
        """Add a retry if no other key waits; otherwise at each fourth key."""
        if self._queue:
            self._taken_since_retry += 1
            if self._taken_since_retry < _RETRY_SHARE:
                return
        self._taken_since_retry = 0
        key = self._retries.next()
        if key is None:
            return
        self._add(key, first=True)
        self._set_timer()

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                break

    def done(self, key: str) -> None:
        """Record that the processing of `key` has ended, with or without success."""
        started = self._processing.pop(key)
        self._metrics.done(self._clock.monotonic() - started)
        self._look_at_held()
        if key in self._dirty:
            self._queue.append(key)
            self._wake_one()
        elif not self._dirty and not self._processing:
            self._idle.set()

    def _tell(self, key: str, delay: float) -> None:
        """Tell of a key, unless it is dropped: a standby adds none."""
        if self._on_add is not None and self._is_open and not self._shutting_down:
            self._on_add(key, delay)

    def add_after(self, key: str, delay: float) -> None:
        """Add `key` after `delay` seconds, or earlier if it is already due earlier."""
        if self._shutting_down:
            return
        self._metrics.retried()
        if delay <= 0:
            self.add(key)
            return
        self._tell(key, delay)
        if self._delayed.put(key, self._clock.monotonic() + delay):
            self._set_timer()

    def add_rate_limited(self, key: str) -> None:
        """Add `key` after its backoff and when the rate of retries allows it."""
        if self._shutting_down:
            return
        self._metrics.retried()
        delay = self._backoff.when(key)
        self._tell(key, delay)
        if key not in self._retries:
            self._backing_off.put(key, self._clock.monotonic() + delay)
            self._set_timer()

    def forget(self, key: str) -> None:
        """Reset the backoff of `key` and cancel its retry, because it succeeded."""
        self._backoff.forget(key)
        self._backing_off.discard(key)
        self._retries.discard(key)

    def cancel(self, key: str) -> None:
        """Drop the deadline of `key`, because its object is gone.

        client-go keeps it until it is due, which may be in a year.
        """
        self._delayed.discard(key)

    def _set_timer(self) -> None:
        """Set the timer for the next deadline.

        If a retry is ready now, wake a waiting worker instead.
        """
        now = self._clock.monotonic()
        deadlines = (self._delayed.first(), self._backing_off.first())
        waits = [each - now for each in deadlines if each is not None]
        next_retry = self._retries.next_in()
        if next_retry == 0:
            self._wake_one()  # it waits for a worker, not for a deadline
        elif next_retry is not None:
            waits.append(next_retry)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if waits:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, min(waits)), self._expire)

    def _expire(self) -> None:
        now = self._clock.monotonic() + _TIMER_TOLERANCE
        for key in self._delayed.pop_until(now):
            if self._add(key):
                self._wake_one()
        for key in self._backing_off.pop_until(now):
            self._retries.add(key, self._backoff.failures(key))
        self._set_timer()

    def failures(self, key: str) -> int:
        """Return how often `key` was added rate-limited since `forget`."""
        return self._backoff.failures(key)

    def state(self, key: str) -> KeyState:
        """Return the state of a key; one that the queue does not know is idle."""
        now, retries = self._clock.monotonic(), self.failures(key)
        deadlines = (self._delayed.when(key), self._backing_off.when(key))
        due = min((each for each in deadlines if each is not None), default=None)
        next_sync = None if due is None else max(0.0, due - now)
        if (started := self._processing.get(key)) is not None:
            return KeyState("Processing", now - started, next_sync, retries)
        if key in self._dirty:
            waited = now - self._added_at.get(key, now)
            return KeyState("Queued", waited, next_sync, retries)
        if key in self._retries:
            return KeyState("Retrying", None, next_sync, retries)
        if due is None:
            return KeyState("Idle", retries=retries)
        is_backing_off = due == deadlines[1]
        waits: State = "BackingOff" if is_backing_off else "Delayed"
        return KeyState(waits, None, next_sync, retries)

    def open(self) -> None:
        """Accept keys from now on, because workers take them.

        A manager that does not lead has no workers: its queue would grow with every
        object that is created, until it leads.
        """
        self._is_open = True

    def shut_down(self) -> None:
        """Accept no more keys, and drop all keys that wait.

        Keys that are being processed are not processed again afterwards. The next
        leader begins with all objects, so no key is lost.
        """
        self._shutting_down = True
        self._queue.clear()
        self._held.clear()
        self._may_take_held = False
        self._dirty.clear()
        self._added_at.clear()
        self._metrics.dropped()
        if not self._processing:
            self._idle.set()
        self._delayed.clear()
        self._backing_off.clear()
        self._retries.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)

    async def drained(self) -> None:
        """Wait until no key waits to be taken and no key is in progress."""
        await self._idle.wait()

    def report_running(self) -> None:
        """Report to the metrics how long the keys in progress have been processed."""
        now = self._clock.monotonic()
        ages = [now - started for started in self._processing.values()]
        self._metrics.running(sum(ages), max(ages, default=0.0))
