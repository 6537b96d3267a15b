"""The metric of the deployment controller."""

from typing import Final

from prometheus_client import CollectorRegistry, Histogram

_ROLLOUT_SECONDS: Final = (1, 5, 10, 30, 60, 120, 300, 600, 1200, 3600)


class RolloutMetrics:
    """The duration of rollouts, which upstream does not export."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._duration = Histogram(
            "deployment_rollout_duration_seconds",
            "Seconds from a change of a deployment until it is complete",
            buckets=_ROLLOUT_SECONDS,
            registry=registry,
        )

    def completed(self, seconds: float) -> None:
        """Observe a complete rollout."""
        self._duration.observe(seconds)
