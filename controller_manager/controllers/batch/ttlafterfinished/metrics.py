"""Metrics of the TTL-after-finished controller, with upstream's names."""

from typing import Final

from prometheus_client import CollectorRegistry, Histogram

_DELETION_SECONDS: Final = tuple(0.1 * 2**power for power in range(14))


class TTLAfterFinishedMetrics:
    """The ``ttl_after_finished_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._delay = Histogram(
            "ttl_after_finished_controller_job_deletion_duration_seconds",
            "Seconds from the time that a job is to be deleted until it is",
            buckets=_DELETION_SECONDS,
            registry=registry,
        )

    def deleted(self, late: float) -> None:
        """Observe a deletion; `late` has the seconds since the job expired."""
        self._delay.observe(late)
