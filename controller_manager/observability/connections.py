"""Metrics of what connections do beside requests (client-go's names)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

Counts = Callable[[], Mapping[tuple[str, str], int]]
"""Returns counts by the values of two labels."""

_LOOK_UP_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30)


class LookUpSeconds:
    """``rest_client_dns_resolution_duration_seconds``, by the name that was looked up.

    Transports exist before there is a registry, so it is registered later. Upstream:
    component-base metrics/prometheus/restclient/metrics.go.
    """

    def __init__(self) -> None:
        self._seconds = Histogram(
            "rest_client_dns_resolution_duration_seconds",
            "Seconds that a look-up of the API server's name took, by host",
            ["host"],
            buckets=_LOOK_UP_SECONDS,
            registry=None,
        )

    def observe(self, host: str, seconds: float) -> None:
        """Observe one look-up."""
        self._seconds.labels(host).observe(seconds)

    def register(self, registry: CollectorRegistry) -> None:
        """Show the metric in `registry`."""
        registry.register(self._seconds)


class ConnectionCollectors(Collector):
    """Calls of exec plugins, and reloads of the API server's authorities.

    The credentials count them: they exist before there is a registry. A kubeconfig has
    no policy for plugins, so every call is one that a policy allowed.
    """

    def __init__(
        self, registry: CollectorRegistry, plugin_calls: Counts, reloads: Counts
    ) -> None:
        """Call the functions for each scrape.

        `plugin_calls` has counts by exit code and status, `reloads` by result and
        reason.
        """
        self._plugin_calls = plugin_calls
        self._reloads = reloads
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Read the counts."""
        calls = Counter(self._plugin_calls())
        yield _family(
            "rest_client_exec_plugin_call_total",
            "Calls of an exec plugin, by exit code and status",
            ("code", "call_status"),
            calls,
        )
        yield _family(
            "rest_client_exec_plugin_policy_call_total",
            "Calls of an exec plugin, by whether the policy permits it; without "
            "a policy each is allowed",
            ("allowed", "denied"),
            {("true", "false"): calls.total()} if calls else {},
        )
        yield _family(
            "rest_client_transport_ca_reload_total",
            "Times that the authorities of the API server were read again, by result "
            "and reason",
            ("result", "reason"),
            self._reloads(),
        )


def _family(
    name: str,
    documentation: str,
    labels: tuple[str, str],
    counts: Mapping[tuple[str, str], int],
) -> Metric:
    family = CounterMetricFamily(name, documentation, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(values, count)
    return family
