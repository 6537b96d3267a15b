"""Metrics of the device taint eviction controller, with upstream's names."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

_BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)


class DeviceTaintEvictionMetrics:
    """The ``device_taint_eviction_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._deletions = Counter(
            "device_taint_eviction_controller_pod_deletions_total",
            "Number of pods that were deleted since this process started",
            registry=registry,
        )
        self._seconds = Histogram(
            "device_taint_eviction_controller_pod_deletion_duration_seconds",
            "Seconds between the time when a pod was to be evicted and its deletion",
            buckets=_BUCKETS,
            registry=registry,
        )

    def deleted(self, seconds: float) -> None:
        """Count a deleted pod, so many seconds after its eviction was due."""
        self._deletions.inc()
        self._seconds.observe(seconds)
