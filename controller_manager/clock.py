"""Time as a constructor argument.

Nothing in this project reads the wall clock by itself: whoever needs the time
is given a :class:`Clock`, so that a test can own it. Sleeping goes through
asyncio, whose loop a test may run on virtual time.
"""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

_SINCE_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """A source of wall-clock and monotonic time."""

    def now(self) -> datetime:
        """Return the wall-clock time, timezone-aware, in UTC."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""


class SystemClock:
    """The machine's own clocks.

    Not the running loop's time: uvloop keeps that in whole milliseconds and
    renews it once a turn, too coarse to measure a sync with.
    """

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the seconds since the machine was started.

        Those in which it was suspended count, where the machine has a clock that
        counts them: a lease goes on while its holder sleeps.
        """
        return time.clock_gettime(_SINCE_BOOT)


class LoopClock:
    """A wall clock that advances exactly with the running event loop.

    On a loop with virtual time this makes timestamps virtual too: one hour of
    ``asyncio.sleep`` moves :meth:`now` by one hour, and takes no time at all.
    """

    def __init__(self, epoch: datetime) -> None:
        """Start the wall clock at `epoch` when the loop's time is zero."""
        self._epoch = epoch

    def now(self) -> datetime:
        """Return the epoch moved by the running loop's time."""
        return self._epoch + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return the running event loop's time, in seconds."""
        return asyncio.get_running_loop().time()
