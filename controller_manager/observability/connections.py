"""Metrics of what connections do beside requests (client-go's names)."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

Counts = Callable[[], Mapping[tuple[str, str], int]]
"""Returns counts by the values of two labels."""


class ConnectionCollectors(Collector):
    """Calls of exec plugins, and reloads of the API server's authorities.

    The credentials count them: they exist before there is a registry.
    """

    def __init__(
        self, registry: CollectorRegistry, plugin_calls: Counts, reloads: Counts
    ) -> None:
        """Register the collector; the functions are called for each scrape.

        `plugin_calls` has counts by exit code and status, `reloads` by result and
        reason.
        """
        self._plugin_calls = plugin_calls
        self._reloads = reloads
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Read the counts."""
        yield _family(
            "rest_client_exec_plugin_call_total",
            "Calls of an exec plugin, by exit code and status",
            ("code", "call_status"),
            self._plugin_calls(),
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
