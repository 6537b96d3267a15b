"""The metric of stuck rollouts by their root cause."""

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

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
