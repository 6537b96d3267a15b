"""Metrics of requests for the status of pools, with upstream's names."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))


class PoolStatusMetrics:
    """The ``resourcepoolstatusrequest_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        prefix = "resourcepoolstatusrequest_controller"
        self._processed = Counter(
            f"{prefix}_requests_processed_total",
            "Number of answers to ResourcePoolStatusRequests, also of failed ones",
            ["driver_name"],
            registry=registry,
        )
        self._errors = Counter(
            f"{prefix}_request_processing_errors_total",
            "Number of answers to ResourcePoolStatusRequests that could not be written",
            ["driver_name"],
            registry=registry,
        )
        self._seconds = Histogram(
            f"{prefix}_request_processing_duration_seconds",
            "Seconds that an answer to a ResourcePoolStatusRequest took",
            ["driver_name"],
            buckets=_SECONDS,
            registry=registry,
        )

    def processed(self, driver: str, seconds: float, *, failed: bool) -> None:
        """Observe one response."""
        self._processed.labels(driver).inc()
        self._seconds.labels(driver).observe(seconds)
        if failed:
            self._errors.labels(driver).inc()
