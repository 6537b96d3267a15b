"""The queue that controllers take their keys from."""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Iterator
from typing import Final

from controller_manager.clock import Clock
from controller_manager.workqueue.metrics import NoMetrics, QueueMetrics
from controller_manager.workqueue.ratelimiters import (
    Backoff,
    ExponentialBackoff,
    TokenBucket,
    retry_bucket,
)
from controller_manager.workqueue.retries import Retries

_RETRY_SHARE: Final = 4
"""Of so many keys that are taken one may be a retry while other keys wait."""

_TICK: Final = 1e-5
"""Seconds that a clock may be behind a deadline that a timer has reached."""


class ShutDown(Exception):  # noqa: N818 - an event, not an error
    """The queue is shut down and empty: the worker that asked should end."""


class _Deadlines:
    """Keys by the instant at which each is due; the earliest one counts."""

    def __init__(self) -> None:
        self._deadlines: dict[str, float] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._sequence = itertools.count()

    def __len__(self) -> int:
        return len(self._deadlines)

    def put(self, key: str, deadline: float) -> bool:
        """Note a deadline; tell whether it is earlier than the key's known one."""
        known = self._deadlines.get(key)
        if known is not None and known <= deadline:
            return False
        self._deadlines[key] = deadline
        heapq.heappush(self._heap, (deadline, next(self._sequence), key))
        return True

    def discard(self, key: str) -> None:
        self._deadlines.pop(key, None)

    def clear(self) -> None:
        self._deadlines.clear()
        self._heap.clear()

    def first(self) -> float | None:
        """Return the earliest deadline."""
        while self._heap and self._is_superseded(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_until(self, now: float) -> Iterator[str]:
        """Yield the keys that are due, each once."""
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            if not self._is_superseded(entry):
                del self._deadlines[entry[2]]
                yield entry[2]

    def _is_superseded(self, entry: tuple[float, int, str]) -> bool:
        return self._deadlines.get(entry[2]) != entry[0]


class WorkQueue:
    """A deduplicating, delaying, rate-limiting queue of keys.

    Its promises, which are client-go's:

    - Fair: keys are processed in the order in which they were added.
    - Stingy: one key is never processed by two workers at a time, and a key
      added several times before it is taken is processed once.
    - Multiple consumers and producers; a key added while it is being processed
      is processed again afterwards.
    - Shutdown: adds are ignored from then on, what waits is still processed,
      and every waiting consumer is told by `ShutDown`.

    Of several delayed adds of a key, the earliest deadline wins. An immediate
    add does not cancel a delayed one. A key that failed waits for its own backoff,
    then until the rate of retries lets it through (see `retries`), and lets keys go
    first that wait for another reason; a success makes a retry that still waits
    superfluous.
    """

    def __init__(
        self,
        clock: Clock,
        backoff: Backoff | None = None,
        metrics: QueueMetrics | None = None,
        *,
        retries: TokenBucket | None = None,
        is_open: bool = True,
    ) -> None:
        """Take the clock, the retry policy and the metrics hooks.

        `backoff` is the wait of each key, `retries` the rate of all together;
        without them both are upstream's. A queue that is not open ignores adds
        until `open` is called.
        """
        self._is_open = is_open
        self._clock = clock
        self._backoff = backoff or ExponentialBackoff()
        self._retries = Retries(retries or retry_bucket(clock))
        self._metrics = metrics or NoMetrics()
        self._queue: deque[str] = deque()
        self._dirty: set[str] = set()
        self._processing: dict[str, float] = {}
        self._added_at: dict[str, float] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._passed_by = 0
        self._shutting_down = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._delayed = _Deadlines()
        self._backing_off = _Deadlines()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many keys wait to be taken now."""
        return len(self._queue)

    @property
    def delayed(self) -> int:
        """How many keys wait for their deadline, or to be tried again."""
        return len(self._delayed) + len(self._backing_off) + len(self._retries)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be taken and nothing is being processed."""
        return self._idle.is_set()

    def add(self, key: str) -> None:
        """Have `key` processed; does nothing if it waits already."""
        if self._add(key):
            self._wake_one()

    def _add(self, key: str, *, first: bool = False) -> bool:
        """Add a key; tell whether there is one more to take."""
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
        self._metrics.added(len(self._queue))
        return can_be_taken

    async def get(self) -> str:
        """Return the next key, waiting for one; `done` must be called for it.

        Raises ShutDown once the queue is shut down and empty.
        """
        while True:
            await self.wait()
            if (key := self.take()) is not None:
                return key

    async def wait(self) -> None:
        """Wait until there is a key to take.

        Raises ShutDown once the queue is shut down and empty.
        """
        while not self._queue and not self._retries.is_ready:
            if self._shutting_down:
                raise ShutDown
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                # The wake-up that this consumer got must not be lost.
                if getter.done() and not getter.cancelled():
                    self._wake_one()
                raise

    def take(self) -> str | None:
        """Return the next key, for which `done` must be called; `None` for none."""
        self._admit_retry()
        if not self._queue:
            return None
        key = self._queue.popleft()
        now = self._clock.monotonic()
        self._dirty.discard(key)
        self._processing[key] = now
        self._metrics.got(now - self._added_at.pop(key, now), len(self._queue))
        return key

    def _admit_retry(self) -> None:
        """Let a retry in if no other key waits, and now and then if some do."""
        if self._queue:
            self._passed_by += 1
            if self._passed_by < _RETRY_SHARE:
                return
        self._passed_by = 0
        key = self._retries.next()
        if key is None:
            return
        self._add(key, first=True)
        self._arm()

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                break

    def done(self, key: str) -> None:
        """Say that the processing of `key` is over, whatever its outcome."""
        started = self._processing.pop(key)
        self._metrics.done(self._clock.monotonic() - started)
        if key in self._dirty:
            self._queue.append(key)
            self._wake_one()
        elif not self._dirty and not self._processing:
            self._idle.set()

    def add_after(self, key: str, delay: float) -> None:
        """Add `key` in `delay` seconds, or when it was to come up anyway."""
        if self._shutting_down:
            return
        self._metrics.retried()
        if delay <= 0:
            self.add(key)
            return
        if self._delayed.put(key, self._clock.monotonic() + delay):
            self._arm()

    def add_rate_limited(self, key: str) -> None:
        """Add `key` when the retry policy allows it."""
        if self._shutting_down:
            return
        self._metrics.retried()
        delay = self._backoff.when(key)
        if key not in self._retries:
            self._backing_off.put(key, self._clock.monotonic() + delay)
            self._arm()

    def forget(self, key: str) -> None:
        """Reset the retry policy for `key`, which has succeeded."""
        self._backoff.forget(key)
        self._backing_off.discard(key)
        self._retries.discard(key)

    def _arm(self) -> None:
        """Set the timer for the next thing that time brings about.

        A retry that may be taken at once is offered to a worker that waits.
        """
        now = self._clock.monotonic()
        deadlines = (self._delayed.first(), self._backing_off.first())
        waits = [each - now for each in deadlines if each is not None]
        next_retry = self._retries.next_in()
        if next_retry == 0:
            self._wake_one()  # it waits for a worker, not for time
        elif next_retry is not None:
            waits.append(next_retry)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if waits:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, min(waits)), self._expire)

    def _expire(self) -> None:
        now = self._clock.monotonic() + _TICK
        for key in self._delayed.pop_until(now):
            self.add(key)
        for key in self._backing_off.pop_until(now):
            self._retries.add(key, self._backoff.failures(key))
        self._arm()

    def failures(self, key: str) -> int:
        """Return how often `key` was added rate-limited since `forget`."""
        return self._backoff.failures(key)

    def open(self) -> None:
        """Accept keys from now on: there is somebody to take them.

        The queue of a standby would otherwise grow with every object that ever
        was, for as long as it stands by.
        """
        self._is_open = True

    def shut_down(self) -> None:
        """Accept nothing more; what waits for a deadline is dropped."""
        self._shutting_down = True
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
        """Wait until nothing waits and nothing is being processed."""
        await self._idle.wait()

    def report_running(self) -> None:
        """Tell the metrics how long the work in progress has been going on."""
        now = self._clock.monotonic()
        ages = [now - started for started in self._processing.values()]
        self._metrics.running(sum(ages), max(ages, default=0.0))
