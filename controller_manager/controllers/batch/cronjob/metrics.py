"""The metric of the cron job controller, with upstream's name."""

from typing import Final

from prometheus_client import CollectorRegistry, Histogram

_SKEW_SECONDS: Final = tuple(2**power for power in range(10))


class CronJobMetrics:
    """The delay with which jobs are created."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._skew = Histogram(
            "cronjob_controller_job_creation_skew_duration_seconds",
            "Time between when a cronjob is scheduled to be run, and when the "
            "corresponding job is created",
            buckets=_SKEW_SECONDS,
            registry=registry,
        )

    def created(self, late: float) -> None:
        """Observe a created job; `late` is the seconds since it was due."""
        self._skew.observe(late)
