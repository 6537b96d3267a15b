"""Metrics of stateful sets, with upstream's names."""

from prometheus_client import CollectorRegistry, Counter


class StatefulSetMetrics:
    """The ``statefulset_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._skips = Counter(
            "statefulset_controller_stale_sync_skips_total",
            "Syncs put off because a cache was older than the last write",
            ["group", "resource"],
            registry=registry,
        )
        for group, resource in (
            ("apps", "statefulsets"),
            ("apps", "controllerrevisions"),
            ("", "pods"),
            ("", "persistentvolumeclaims"),
        ):
            self._skips.labels(group, resource)

    def skipped(self, group: str, resource: str) -> None:
        """Count a sync that was requeued because the cache of `resource` is stale."""
        self._skips.labels(group, resource).inc()
