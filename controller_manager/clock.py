"""Clocks, which are passed as constructor arguments.

No class in this project reads the wall clock by itself: a class that needs the time
takes a :class:`Clock`, so that a test can control it. Sleeping goes through asyncio,
whose loop a test may run on virtual time.
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

    It does not use the running loop's time: uvloop keeps that in whole milliseconds
    and updates it once a turn, which is too coarse to measure a sync.
    """

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the seconds since the machine was started.

        Time in which the machine was suspended counts, if the machine has a clock for
        that: a lease expires even while its holder is suspended.
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
