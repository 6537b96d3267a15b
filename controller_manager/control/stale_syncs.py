"""The metric of syncs that were put off because a cache was stale."""

from prometheus_client import CollectorRegistry, Counter

from controller_manager.api.resource import AnyResource


class StaleSyncs:
    """Counts the syncs of a controller that wait until a cache shows its last write.

    The metric is ``PREFIX_stale_sync_skips_total``, as in upstream's controllers.
    """

    def __init__(
        self, registry: CollectorRegistry, prefix: str, *resources: AnyResource
    ) -> None:
        """Register the counter, with a series at zero for each resource."""
        self._skips = Counter(
            f"{prefix}_stale_sync_skips_total",
            "Syncs put off because a cache was older than the last write",
            ["group", "resource"],
            registry=registry,
        )
        for each in resources:
            self._skips.labels(each.group, each.plural)

    def count(self, resource: AnyResource) -> None:
        """Count a sync that was put off because the cache of `resource` is stale."""
        self._skips.labels(resource.group, resource.plural).inc()
