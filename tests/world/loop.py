"""An event loop with virtual time and a repeatable order of callbacks."""

import asyncio
import contextvars
import heapq
import itertools
from collections.abc import Coroutine
from typing import Any

PROCESS: contextvars.ContextVar[int] = contextvars.ContextVar("process", default=0)
"""The number of a callback's simulated process; 0 is the simulator."""


class Deadlock(Exception):
    """Nothing is ready and no timer is set: every task waits forever."""


class _Task(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address.

    Task groups cancel their tasks in the order of a set.
    """

    _numbers = itertools.count()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(self._numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.SelectorEventLoop):
    """Advances time to the next timer when no callback is ready.

    Can stop single processes, as SIGSTOP does: their time goes on, but none of
    their callbacks runs until they continue.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        # Timers that differ only by floating-point errors fire together.
        self._clock_resolution: float = 1e-6
        self._stopped: dict[int, list[asyncio.Handle]] = {}
        self.turn = 0
        """The number of turns so far; one turn runs all ready callbacks."""
        _Task._numbers = itertools.count()
        self.set_task_factory(_make_task)  # type: ignore[arg-type]

    def time(self) -> float:
        return self._now

    def stop_process(self, number: int) -> None:
        """Run no callback of that process from now on."""
        self._stopped.setdefault(number, [])

    def is_stopped(self, number: int) -> bool:
        """Tell whether a process is stopped."""
        return number in self._stopped

    def continue_process(self, number: int) -> None:
        """Run the callbacks that were held back for a process, and all that follow."""
        ready: Any = self._ready  # type: ignore[attr-defined]
        ready.extend(self._stopped.pop(number, ()))

    def _run_once(self) -> None:
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        ready: Any = self._ready  # type: ignore[attr-defined]
        self._hold_back(ready)
        while not ready and not self._stopping:  # type: ignore[attr-defined]
            self._drop_cancelled(scheduled)
            if not scheduled:
                raise Deadlock
            self._now = max(self._now, scheduled[0].when())
            self._take_due(scheduled, ready)
            self._hold_back(ready)
        self.turn += 1
        super()._run_once()  # type: ignore[misc]

    def _drop_cancelled(self, scheduled: list[asyncio.TimerHandle]) -> None:
        while scheduled and scheduled[0].cancelled():
            handle = heapq.heappop(scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]
            self._timer_cancelled_count -= 1  # type: ignore[attr-defined]

    def _take_due(self, scheduled: list[asyncio.TimerHandle], ready: Any) -> None:
        while scheduled and scheduled[0].when() < self._now + self._clock_resolution:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]
            ready.append(handle)

    def _hold_back(self, ready: Any) -> None:
        """Set the callbacks of stopped processes aside."""
        if not self._stopped:
            return
        for _ in range(len(ready)):
            handle = ready.popleft()
            process = handle._context.get(PROCESS, 0)
            self._stopped.get(process, ready).append(handle)


def _make_task(
    loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **kwargs: Any
) -> "asyncio.Task[Any]":
    return _Task(coro, loop=loop, **kwargs)
