"""The metrics of the main event loop."""

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
