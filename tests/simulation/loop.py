"""An event loop whose time is virtual and whose order is repeatable."""

import asyncio
import heapq
import itertools
from collections.abc import Coroutine
from typing import Any


class Deadlock(Exception):  # noqa: N818 - names what happened
    """Nothing is ready and no timer is set: everybody waits for ever."""


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
    """Jumps to the next timer whenever nothing is ready."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        # Timers that floating-point errors set apart fire together.
        self._clock_resolution = 1e-6
        _Task._numbers = itertools.count()
        self.set_task_factory(_make_task)  # type: ignore[arg-type]

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0].cancelled():
            handle = heapq.heappop(scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]
            self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
        if not self._ready:  # type: ignore[attr-defined]
            if scheduled:
                self._now = max(self._now, scheduled[0].when())
            elif not self._stopping:  # type: ignore[attr-defined]
                raise Deadlock
        super()._run_once()  # type: ignore[misc]


def _make_task(
    loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **kwargs: Any
) -> "asyncio.Task[Any]":
    return _Task(coro, loop=loop, **kwargs)
