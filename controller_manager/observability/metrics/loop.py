"""The metrics of the main event loop: by how much its timers are late."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram

_LAG_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)


class LoopCollectors:
    """The lag of the event loop, and the duration of its longest turn."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._lag = Histogram(
            "event_loop_lag_seconds",
            "Seconds by which the event loop calls a timer too late",
            buckets=_LAG_SECONDS,
            registry=registry,
        )
        self._longest = 0.0
        self._longest_before = 0.0
        Gauge(
            "event_loop_longest_turn_seconds",
            "Seconds of the longest turn of the event loop in the last one to two "
            "minutes",
            registry=registry,
        ).set_function(lambda: max(self._longest, self._longest_before))
        self._stalled = Gauge(
            "event_loop_stalled_seconds",
            "Seconds by which the event loop of the controllers is late with its next "
            "turn",
            registry=registry,
        )

    def stalled_for(self, seconds: Callable[[], float]) -> None:
        """Show how many seconds the loop is late now, as `seconds` tells."""
        self._stalled.set_function(seconds)

    def late(self, seconds: float) -> None:
        """Observe the lag of one timer; the turn before it lasted at least as long."""
        self._lag.observe(seconds)
        self.turned(seconds)

    def turned(self, seconds: float) -> None:
        """Observe the duration of one turn in seconds."""
        self._longest = max(self._longest, seconds)

    def next_minute(self) -> None:
        """Forget the longest turn of the minute before this one."""
        self._longest_before, self._longest = self._longest, 0.0


_INTERVAL: Final = 5.0
_MINUTE: Final = 12
"""Intervals in a minute."""


async def observe_lag(metrics: LoopCollectors) -> None:
    """Measure for ever, every five seconds, by how much a timer is late."""
    loop = asyncio.get_running_loop()
    for number in itertools.count(1):
        due = loop.time() + _INTERVAL
        await asyncio.sleep(_INTERVAL)
        metrics.late(max(0.0, loop.time() - due))
        if number % _MINUTE == 0:
            metrics.next_minute()
