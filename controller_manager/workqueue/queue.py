"""The queue that controllers take their keys from."""

import asyncio
import heapq
import itertools
from collections import deque
from typing import Final

from controller_manager.clock import Clock
from controller_manager.workqueue.metrics import NoMetrics, QueueMetrics
from controller_manager.workqueue.ratelimiters import RateLimiter

_TICK: Final = 1e-5
"""Seconds that a clock may be behind a deadline that a timer has reached."""


class ShutDown(Exception):  # noqa: N818 - an event, not an error
    """The queue is shut down and empty: the worker that asked should end."""


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
    add does not cancel a delayed one.
    """

    def __init__(
        self,
        clock: Clock,
        rate_limiter: RateLimiter,
        metrics: QueueMetrics | None = None,
        *,
        is_open: bool = True,
    ) -> None:
        """Take the clock, the retry policy and the metrics hooks.

        A queue that is not open ignores adds until `open` is called.
        """
        self._is_open = is_open
        self._clock = clock
        self._rate_limiter = rate_limiter
        self._metrics = metrics or NoMetrics()
        self._queue: deque[str] = deque()
        self._dirty: set[str] = set()
        self._processing: dict[str, float] = {}
        self._added_at: dict[str, float] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._shutting_down = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._waiting: dict[str, float] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._sequence = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many keys wait to be taken now."""
        return len(self._queue)

    @property
    def delayed(self) -> int:
        """How many keys wait for their deadline."""
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be taken and nothing is being processed."""
        return self._idle.is_set()

    def add(self, key: str) -> None:
        """Have `key` processed; does nothing if it waits already."""
        if not self._is_open or self._shutting_down or key in self._dirty:
            return
        self._dirty.add(key)
        self._added_at.setdefault(key, self._clock.monotonic())
        self._idle.clear()
        if key not in self._processing:
            self._append(key)
        self._metrics.added(len(self._queue))

    def _append(self, key: str) -> None:
        self._queue.append(key)
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                break

    async def get(self) -> str:
        """Return the next key, waiting for one; `done` must be called for it.

        Raises ShutDown once the queue is shut down and empty.
        """
        while not self._queue:
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
        key = self._queue.popleft()
        now = self._clock.monotonic()
        self._dirty.discard(key)
        self._processing[key] = now
        self._metrics.got(now - self._added_at.pop(key, now), len(self._queue))
        return key

    def _wake_one(self) -> None:
        if self._queue and self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)

    def done(self, key: str) -> None:
        """Say that the processing of `key` is over, whatever its outcome."""
        started = self._processing.pop(key)
        self._metrics.done(self._clock.monotonic() - started)
        if key in self._dirty:
            self._append(key)
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
        deadline = self._clock.monotonic() + delay
        known = self._waiting.get(key)
        if known is not None and known <= deadline:
            return
        self._waiting[key] = deadline
        heapq.heappush(self._heap, (deadline, next(self._sequence), key))
        self._arm()

    def _arm(self) -> None:
        while self._heap and self._waiting.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # superseded by an earlier deadline
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            delay = self._heap[0][0] - self._clock.monotonic()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, delay), self._expire)

    def _expire(self) -> None:
        now = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= now + _TICK:
            deadline, _, key = heapq.heappop(self._heap)
            if self._waiting.get(key) == deadline:
                del self._waiting[key]
                self.add(key)
        self._arm()

    def add_rate_limited(self, key: str) -> None:
        """Add `key` when the retry policy allows it."""
        self.add_after(key, self._rate_limiter.when(key))

    def forget(self, key: str) -> None:
        """Reset the retry policy for `key`."""
        self._rate_limiter.forget(key)

    def failures(self, key: str) -> int:
        """Return how often `key` was added rate-limited since `forget`."""
        return self._rate_limiter.failures(key)

    def open(self) -> None:
        """Accept keys from now on: there is somebody to take them.

        The queue of a standby would otherwise grow with every object that ever
        was, for as long as it stands by.
        """
        self._is_open = True

    def shut_down(self) -> None:
        """Accept nothing more; what waits for a deadline is dropped."""
        self._shutting_down = True
        self._waiting.clear()
        self._heap.clear()
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
