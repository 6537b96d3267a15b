"""The metrics of the process: elections, errors, rollouts, its loop and its server.

The results of health checks are shown by /metrics/slis (component-base
metrics/prometheus/slis of 1.36).
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, metrics_core
from prometheus_client.registry import Collector

from controller_manager.observability.logs import Outputs


class ElectionCollectors:
    """The ``leader_election_*`` metrics of all leases."""

    def __init__(self, registry: CollectorRegistry) -> None:
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
        """`lost` is a logger's."""
        self._lost = lost
        registry.register(self)

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Read the logger's counts."""
        yield metrics_core.CounterMetricFamily(
            "log_write_failures_total",
            "Log lines that could not be written",
            value=self._lost.failed,
        )
        yield metrics_core.CounterMetricFamily(
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
        self._numbers: Mapping[tuple[str, str], int] = {}
        registry.register(self)

    def show(self, numbers: Mapping[tuple[str, str], int]) -> None:
        """Show other numbers from now on, by cause and kind."""
        self._numbers = dict(sorted(numbers.items()))

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Return the numbers."""
        family = metrics_core.GaugeMetricFamily(
            "stuck_rollouts",
            "Deployments, stateful sets and daemon sets that are stuck, by the code of "
            "their root cause, see controller-manager explain",
            labels=["cause", "kind"],
        )
        for labels, number in self._numbers.items():
            family.add_metric(labels, number)
        yield family


_LAG_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)


class LoopCollectors:
    """The lag of the event loop, and the duration of its longest turn."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lag = Histogram(
            "event_loop_lag_seconds",
            "Seconds by which the event loop calls a timer too late",
            buckets=_LAG_SECONDS,
            registry=registry,
        )
        self._longest = 0.0
        self._longest_before = 0.0
        Gauge(
            "event_loop_longest_turn_seconds",
            "Seconds of the longest turn of the event loop in the last one to two "
            "minutes",
            registry=registry,
        ).set_function(lambda: max(self._longest, self._longest_before))
        self._stalled = Gauge(
            "event_loop_stalled_seconds",
            "Seconds by which the event loop of the controllers is late with its next "
            "turn",
            registry=registry,
        )

    def stalled_for(self, seconds: Callable[[], float]) -> None:
        """Show how many seconds the loop is late now, as `seconds` tells."""
        self._stalled.set_function(seconds)

    def late(self, seconds: float) -> None:
        """Observe the lag of one timer; the turn before it lasted at least as long."""
        self._lag.observe(seconds)
        self.turned(seconds)

    def turned(self, seconds: float) -> None:
        """Observe the duration of one turn in seconds."""
        self._longest = max(self._longest, seconds)

    def next_minute(self) -> None:
        """Forget the longest turn of the minute before this one."""
        self._longest_before, self._longest = self._longest, 0.0


_INTERVAL: Final = 5.0
_MINUTE: Final = 12
"""Intervals in a minute."""


async def observe_lag(metrics: LoopCollectors) -> None:
    """Measure for ever, every five seconds, by how much a timer is late."""
    loop = asyncio.get_running_loop()
    for number in itertools.count(1):
        due = loop.time() + _INTERVAL
        await asyncio.sleep(_INTERVAL)
        metrics.late(max(0.0, loop.time() - due))
        if number % _MINUTE == 0:
            metrics.next_minute()


class ServingCollectors:
    """Connections that the HTTPS server closed because they were too many."""

    def __init__(self, registry: CollectorRegistry) -> None:
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
        """Only /metrics/slis shows this registry."""
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
