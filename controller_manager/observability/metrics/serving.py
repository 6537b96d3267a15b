"""The metrics of the connections of the HTTPS server."""

from prometheus_client import CollectorRegistry, Counter


class ServingCollectors:
    """Connections that the HTTPS server closed because they were too many."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._evicted = Counter(
            "serving_connections_evicted_total",
            "Connections that waited for their peer, closed for a new one",
            registry=registry,
        )
        self._refused = Counter(
            "serving_connections_refused_total",
            "New connections that were closed because all others were in use",
            registry=registry,
        )

    def evicted(self) -> None:
        """Count a connection that was closed for a new one."""
        self._evicted.inc()

    def refused(self) -> None:
        """Count a new connection that was closed."""
        self._refused.inc()
