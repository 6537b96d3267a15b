"""The metrics of the HTTPS server: its connections, and the results of health checks.

The results are shown by /metrics/slis (component-base metrics/prometheus/slis of 1.36).
"""

from prometheus_client import CollectorRegistry, Counter, Gauge


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


class HealthcheckCollectors:
    """The last result of each health check, and how often each result came."""

    def __init__(self) -> None:
        """Start without results, in a registry that only /metrics/slis shows."""
        self.registry = CollectorRegistry()
        self._last = Gauge(
            "kubernetes_healthcheck",
            "The last result of a health check: 1 for success, 0 for an error",
            ["name", "type"],
            registry=self.registry,
        )
        self._results = Counter(
            "kubernetes_healthchecks_total",
            "Results of health checks, by check, probe and result",
            ["name", "type", "status"],
            registry=self.registry,
        )

    def observe(self, name: str, endpoint: str, *, healthy: bool) -> None:
        """Count a result of the check `name` in a probe of `endpoint` (``healthz``)."""
        self._last.labels(name, endpoint).set(1 if healthy else 0)
        status = "success" if healthy else "error"
        self._results.labels(name, endpoint, status).inc()

    def reset(self) -> None:
        """Forget all results."""
        self._last.clear()
        self._results.clear()
