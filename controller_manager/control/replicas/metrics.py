"""Metrics of replica sets and replication controllers, with upstream's names."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

_AGE_RATIO: Final = (0.25, 0.5, 1, 2, 4, 8)


class ReplicaSetMetrics:
    """The ``replicaset_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self.age_ratio = Histogram(
            "replicaset_controller_sorting_deletion_age_ratio",
            "Ratio of a deleted pod's age to that of the youngest ready pod",
            buckets=_AGE_RATIO,
            registry=registry,
        )
        self._skips = Counter(
            "replicaset_controller_stale_sync_skips_total",
            "Syncs put off because a cache was older than the last write",
            ["group", "resource"],
            registry=registry,
        )
        self._skips.labels("apps", "replicasets")
        self._skips.labels("", "pods")

    def skipped(self, group: str, resource: str) -> None:
        """Count a sync that was requeued because the cache of `resource` is stale."""
        self._skips.labels(group, resource).inc()
