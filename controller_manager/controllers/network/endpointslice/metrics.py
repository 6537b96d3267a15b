"""Metrics of endpoint slices, with upstream's names (metrics.go, cache.go)."""

from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram

from controller_manager.controllers.network.endpointslice.hints.mode import (
    DISTRIBUTIONS,
)
from controller_manager.controllers.network.endpointslice.planning import Usage
from controller_manager.observability.plain_counter import PlainCounter

_PREFIX: Final = "endpoint_slice_controller"
_ENDPOINTS: Final = tuple(2**power for power in range(1, 16))
_CHANGED: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_OTHER: Final = "ImplementationSpecific"


class _Totals:
    """The numbers of one service: its endpoints, its slices, and how few could do."""

    __slots__ = ("desired_slices", "endpoints", "slices")

    def __init__(self, by_type: Iterable[Sequence[Usage]] = (), limit: int = 1) -> None:
        self.endpoints = self.slices = self.desired_slices = 0
        for usage in by_type:
            self.endpoints += sum(each.endpoints for each in usage)
            self.slices += sum(each.slices for each in usage)
            # Without an endpoint there is the placeholder.
            self.desired_slices += max(
                1, sum(-(-each.endpoints // limit) for each in usage)
            )


class EndpointSliceMetrics:
    """The ``endpoint_slice_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._register_of_syncs(registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"{_PREFIX}_{name}", text, labels, registry=registry)

        self._endpoints = gauge("endpoints_desired", "Number of endpoints desired")
        self._slices = gauge("num_endpoint_slices", "Number of EndpointSlices")
        self._desired = gauge(
            "desired_endpoint_slices",
            "Number of EndpointSlices that would exist with perfect endpoint "
            "allocation",
        )
        self._distributions = gauge(
            "services_count_by_traffic_distribution",
            "Number of Services using some specific trafficDistribution",
            "traffic_distribution",
        )
        self._totals: dict[str, _Totals] = {}
        self._distribution_of: dict[str, str] = {}

    def _register_of_syncs(self, registry: CollectorRegistry) -> None:
        self._added = Histogram(
            f"{_PREFIX}_endpoints_added_per_sync",
            "Number of endpoints added on each Service sync",
            buckets=_ENDPOINTS,
            registry=registry,
        )
        self._removed = Histogram(
            f"{_PREFIX}_endpoints_removed_per_sync",
            "Number of endpoints removed on each Service sync",
            buckets=_ENDPOINTS,
            registry=registry,
        )
        self._changed = Histogram(
            f"{_PREFIX}_endpointslices_changed_per_sync",
            "Number of EndpointSlices changed on each Service sync",
            ["topology", "traffic_distribution"],
            buckets=_CHANGED,
            registry=registry,
        )
        self._changes = PlainCounter(
            f"{_PREFIX}_changes",
            "Number of EndpointSlice changes",
            ("operation",),
            registry,
        )
        self._syncs = PlainCounter(
            f"{_PREFIX}_syncs", "Number of EndpointSlice syncs", ("result",), registry
        )
        for operation in ("create", "update", "delete"):
            self._changes.increment(operation, by=0)
        for result in ("success", "stale", "error"):
            self._syncs.increment(result, by=0)

    def wrote(self, operation: str) -> None:
        """Count a write: create, update or delete."""
        self._changes.increment(operation)

    def synced(self, result: str) -> None:
        """Count a sync: success, stale or error."""
        self._syncs.increment(result)

    def planned(self, added: int, removed: int) -> None:
        """Observe how many endpoints of one address type come and go."""
        self._added.observe(added)
        self._removed.observe(removed)

    def finished(self, count: int, distribution: str, *, by_topology: bool) -> None:
        """Observe how many slices of one address type were written."""
        topology = "Auto" if by_topology else "Disabled"
        self._changed.labels(topology, distribution).observe(count)

    def uses(self, key: str, by_type: Iterable[Sequence[Usage]], limit: int) -> None:
        """Show the endpoints and slices of a service, of all its address types.

        Upstream shows those of one type only.
        """
        self._replace(key, _Totals(by_type, limit))

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
        """Show nothing any more about a service that is gone."""
        self.distributes(key, "")
        self._replace(key, None)

    def _replace(self, key: str, totals: _Totals | None) -> None:
        former = self._totals.pop(key, _NOTHING)
        if totals is not None:
            self._totals[key] = totals
        now = totals or _NOTHING
        self._endpoints.inc(now.endpoints - former.endpoints)
        self._slices.inc(now.slices - former.slices)
        self._desired.inc(now.desired_slices - former.desired_slices)


_NOTHING: Final = _Totals()
