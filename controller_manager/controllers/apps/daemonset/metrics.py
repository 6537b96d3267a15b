"""Metrics of daemon sets, with upstream's names."""

from prometheus_client import CollectorRegistry, Counter


class DaemonSetMetrics:
    """The ``daemonset_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._skips = Counter(
            "daemonset_controller_stale_sync_skips_total",
            "Syncs put off because a cache was older than the last write",
            ["group", "resource"],
            registry=registry,
        )
        self._skips.labels("apps", "daemonsets")
        self._skips.labels("", "pods")

    def skipped(self, group: str, resource: str) -> None:
        """Count a sync that was requeued because the cache of `resource` is stale."""
        self._skips.labels(group, resource).inc()
