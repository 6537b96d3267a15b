"""The metrics of the manager: elections, errors, lost log lines, stuck rollouts."""

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from controller_manager.observability.logs import Outputs


class ElectionCollectors:
    """The ``leader_election_*`` metrics of all leases."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._master = Gauge(
            "leader_election_master_status",
            "1 if this process holds the lease of that name, 0 if it stands by",
            ["name"],
            registry=registry,
        )
        self._slow_path = Counter(
            "leader_election_slowpath_total",
            "Renewals that had to read the lease first",
            ["name"],
            registry=registry,
        )

    def lease(self, name: str) -> "LeaseMetrics":
        """Return the metrics of the lease of that name."""
        return LeaseMetrics(self._master.labels(name), self._slow_path.labels(name))


class LeaseMetrics:
    """The ``leader_election_*`` metrics of one lease."""

    def __init__(self, master: Gauge, slow_path: Counter) -> None:
        self._master = master
        self._slow_path = slow_path

    def set_leading(self, *, leading: bool) -> None:
        """Set whether this process leads."""
        self._master.set(1 if leading else 0)

    def slow_path(self) -> None:
        """Count a renewal that had to read the lease first."""
        self._slow_path.inc()


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


STUCK_ROLLOUTS: Final = "stuck_rollouts"
"""The name of the metric."""


class RolloutCollector(Collector):
    """The number of stuck rollouts by cause and kind.

    All numbers are replaced in one step, because another thread may scrape: it never
    sees half of them, and a rollout that is resolved has no series any more.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collector."""
        self._numbers: Mapping[tuple[str, str], int] = {}
        registry.register(self)

    def show(self, numbers: Mapping[tuple[str, str], int]) -> None:
        """Show other numbers from now on, by cause and kind."""
        self._numbers = dict(sorted(numbers.items()))

    def collect(self) -> Iterable[Metric]:
        """Return the numbers."""
        family = GaugeMetricFamily(
            "stuck_rollouts",
            "Deployments, stateful sets and daemon sets that are stuck, by the code of "
            "their root cause, see controller-manager explain",
            labels=["cause", "kind"],
        )
        for labels, number in self._numbers.items():
            family.add_metric(labels, number)
        yield family
