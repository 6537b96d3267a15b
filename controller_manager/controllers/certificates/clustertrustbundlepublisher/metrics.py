"""Metrics of the publisher, with upstream's names."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

_PUBLISH_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))


class TrustBundleMetrics:
    """The ``clustertrustbundle_publisher_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._syncs = Counter(
            "clustertrustbundle_publisher_sync_total",
            "Number of syncs of the bundle by their outcome's HTTP status",
            ["code"],
            registry=registry,
        )
        self._seconds = Histogram(
            "clustertrustbundle_publisher_sync_duration_seconds",
            "Seconds that a sync of the bundle took by its outcome's HTTP status",
            ["code"],
            buckets=_PUBLISH_SECONDS,
            registry=registry,
        )

    def synced(self, code: int, seconds: float) -> None:
        """Observe one sync."""
        self._syncs.labels(str(code)).inc()
        self._seconds.labels(str(code)).observe(seconds)
