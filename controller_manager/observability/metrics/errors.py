"""The metrics of unexpected errors, and of lost log lines."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from controller_manager.observability.logs import Outputs


class DefectCollectors:
    """Unexpected errors outside of caches, each of which ended one part at most."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._errors = Counter(
            "unexpected_errors_total",
            "Unexpected errors by the part in which they were caught; the others go on",
            ["part"],
            registry=registry,
        )

    def count(self, part: str) -> None:
        """Count an error of a part, for example a controller, or events."""
        self._errors.labels(part).inc()


class LogCollectors(Collector):
    """The numbers of lost log lines, as counted by the logger."""

    def __init__(self, registry: CollectorRegistry, lost: Outputs) -> None:
        """Register the collector; `lost` is a logger's."""
        self._lost = lost
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Read the logger's counts."""
        yield CounterMetricFamily(
            "log_write_failures_total",
            "Log lines that could not be written",
            value=self._lost.failed,
        )
        yield CounterMetricFamily(
            "log_lines_dropped_total",
            "Log lines that were dropped because the log was not read",
            value=self._lost.dropped,
        )
