"""Metrics of the node lifecycle controller, with upstream's names."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from .topology import Count


class NodeLifecycleMetrics:
    """The ``node_collector_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"node_collector_{name}", text, ["zone"], registry=registry)

        self._health = gauge("zone_health", "The percentage of healthy nodes in a zone")
        self._size = gauge("zone_size", "The number of nodes in a zone")
        self._unhealthy = gauge(
            "unhealthy_nodes_in_zone",
            "The number of nodes in a zone that are not ready",
        )
        self.evictions = Counter(
            "node_collector_evictions_total",
            "Number of nodes whose pods were evicted since this process started",
            ["zone"],
            registry=registry,
        )
        self.node_seconds = Histogram(
            "node_collector_update_node_health_duration_seconds",
            "Seconds to update the health of one node",
            buckets=[0.001 * 4**step for step in range(8)],
            registry=registry,
        )
        self.all_nodes_seconds = Histogram(
            "node_collector_update_all_nodes_health_duration_seconds",
            "Seconds to update the health of all nodes",
            buckets=[0.01 * 4**step for step in range(8)],
            registry=registry,
        )

    def zone(self, zone: str, count: Count) -> None:
        """Show the numbers of a zone; one without nodes is healthy."""
        health = 100 * count.ready / count.size if count.size else 100
        self._size.labels(zone).set(count.size)
        self._unhealthy.labels(zone).set(count.unhealthy)
        self._health.labels(zone).set(health)
