"""Metrics of endpoint slices, with upstream's names (metrics.go, cache.go)."""

from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram

from controller_manager.control.endpoints.slices.metrics import (
    SliceMetrics,
    SliceTotals,
)
from controller_manager.control.endpoints.slices.packing import SliceUsage
from controller_manager.observability.plain_counter import PlainCounter

from .traffic_distribution import DISTRIBUTIONS

_PREFIX: Final = "endpoint_slice_controller"
_ENDPOINTS: Final = tuple(2**power for power in range(1, 16))
_CHANGED: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_OTHER: Final = "ImplementationSpecific"


class EndpointSliceMetrics(SliceMetrics):
    """The ``endpoint_slice_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        super().__init__(registry, _PREFIX)

        def histogram(verb: str) -> Histogram:
            return Histogram(
                f"{_PREFIX}_endpoints_{verb}_per_sync",
                f"Number of endpoints {verb} on each Service sync",
                buckets=_ENDPOINTS,
                registry=registry,
            )

        self._added = histogram("added")
        self._removed = histogram("removed")
        self._changed = Histogram(
            f"{_PREFIX}_endpointslices_changed_per_sync",
            "Number of EndpointSlices changed on each Service sync",
            ["topology", "traffic_distribution"],
            buckets=_CHANGED,
            registry=registry,
        )
        self._syncs = PlainCounter(
            f"{_PREFIX}_syncs",
            "Number of EndpointSlice syncs",
            ["result"],
            registry=registry,
        )
        for result in ("success", "stale", "error"):
            self._syncs.labels(result)
        self._distributions = Gauge(
            f"{_PREFIX}_services_count_by_traffic_distribution",
            "Number of Services using some specific trafficDistribution",
            ["traffic_distribution"],
            registry=registry,
        )
        self._distribution_of: dict[str, str] = {}

    def synced(self, result: str) -> None:
        """Count a sync: success, stale or error."""
        self._syncs.labels(result).inc()

    def planned(self, added: int, removed: int) -> None:
        """Observe how many endpoints of one address type are added and removed."""
        self._added.observe(added)
        self._removed.observe(removed)

    def finished(self, count: int, distribution: str, *, by_topology: bool) -> None:
        """Observe how many slices of one address type were written."""
        topology = "Auto" if by_topology else "Disabled"
        self._changed.labels(topology, distribution).observe(count)

    def uses(
        self, key: str, by_type: Iterable[Sequence[SliceUsage]], limit: int
    ) -> None:
        """Show the endpoints and slices of a service, of all its address types.

        Upstream shows those of one type only. A type without endpoints has a
        placeholder, so it needs one slice.
        """
        totals = (SliceTotals.of(usage, limit, least=1) for usage in by_type)
        self.show(key, sum(totals, start=SliceTotals()))

    def distributes(self, key: str, distribution: str) -> None:
        """Show the traffic distribution of a service, empty for none."""
        if distribution and distribution not in DISTRIBUTIONS:
            distribution = _OTHER
        former = self._distribution_of.pop(key, "")
        if former:
            self._distributions.labels(former).dec()
        if distribution:
            self._distribution_of[key] = distribution
            self._distributions.labels(distribution).inc()

    def forget(self, key: str) -> None:
        """Drop the totals and the traffic distribution of a service that is gone."""
        self.distributes(key, "")
        super().forget(key)
