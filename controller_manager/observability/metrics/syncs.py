"""The metrics of syncs."""

from typing import Final

from prometheus_client import CollectorRegistry, Histogram

_SYNC_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60)


class SyncCollectors:
    """Duration and outcome of syncs, which upstream does not export."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._duration = Histogram(
            "controller_sync_duration_seconds",
            "Seconds that a sync took by controller and outcome",
            ["controller", "outcome"],
            buckets=_SYNC_SECONDS,
            registry=registry,
        )

    def controller(self, name: str) -> "PrometheusSyncMetrics":
        """Return the hooks of one controller; all outcomes start at zero."""
        return PrometheusSyncMetrics(self._duration, name)


class PrometheusSyncMetrics:
    """The metrics hooks of one controller's worker loop."""

    def __init__(self, duration: Histogram, name: str) -> None:
        """Pre-create the series of every outcome."""
        self._outcomes = {
            outcome: duration.labels(name, outcome)
            for outcome in ("success", "requeue", "refused", "error")
        }

    def observe(self, outcome: str, seconds: float) -> None:
        """Observe one sync."""
        self._outcomes[outcome].observe(seconds)
