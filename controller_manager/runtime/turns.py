"""The time that workers may use in one turn of the event loop.

A reconcile that has nothing to change never awaits. A worker with 4,000 such keys in
its queue would block the loop for 0.4 s: all other controllers would wait. So all
workers of a process share one budget of time for each turn of the loop; the remaining
keys are processed in later turns.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

BUDGET: Final = 0.005
"""Seconds of one turn of the event loop that workers may use together.

Half of the 10 ms that a turn may take: watches need time, too.
"""


class Turns:
    """Shares the turns of one event loop among all workers of a process.

    A turn is over budget once `BUDGET` has passed since the first worker began in
    it. A worker that calls `wait` then waits for a later turn. Workers that have not
    worked in this turn go first in the next one, so every worker gets its turn.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.perf_counter,
        on_turn: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Take a clock that measures work, in seconds.

        `on_turn` is called after each turn in which workers worked, with the seconds
        from the start of the first worker until the next turn.
        """
        self._clock = clock
        self._on_turn = on_turn
        self._number = 0
        self._began: float | None = None
        self._next: deque[asyncio.Future[None]] = deque()
        self._after: deque[asyncio.Future[None]] = deque()

    async def wait(self, last: int) -> int:
        """Wait until there is time left in a turn; return the turn's number.

        `last` is the number of the turn in which the caller worked last, 0 for
        none.
        """
        while not self._has_time():
            waiters = self._after if last == self._number else self._next
            future = asyncio.get_running_loop().create_future()
            waiters.append(future)
            await future
        return self._number

    def _has_time(self) -> bool:
        now = self._clock()
        if self._began is None:
            self._began = now
            self._number += 1
            asyncio.get_running_loop().call_soon(self._end)
            return True
        return now - self._began < BUDGET

    def _end(self) -> None:
        """End the turn: the loop calls this at the beginning of the next one."""
        if self._began is not None:
            self._on_turn(self._clock() - self._began)
        self._began = None
        waiters = (*self._next, *self._after)
        self._next.clear()
        self._after.clear()
        for future in waiters:
            if not future.done():
                future.set_result(None)
