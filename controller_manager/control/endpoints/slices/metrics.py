"""The metrics that the endpoint slice controllers share (metrics.go, cache.go)."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from prometheus_client import CollectorRegistry, Gauge

from controller_manager.observability.plain_counter import PlainCounter

from .packing import SliceUsage

_OPERATIONS: Final = ("create", "update", "delete")


class SliceTotals(Struct, frozen=True):
    """Numbers of endpoints and of slices.

    `desired_slices` is the smallest number of slices that the endpoints need.
    """

    endpoints: int = 0
    slices: int = 0
    desired_slices: int = 0

    @classmethod
    def of(
        cls, usage: Iterable[SliceUsage], limit: int, least: int = 0
    ) -> "SliceTotals":
        """Return the totals of several sets of ports.

        `limit` is the largest number of endpoints of a slice, and `least` the smallest
        number of slices: a service without endpoints has a placeholder.
        """
        found = list(usage)
        needed = sum(-(-each.endpoints // limit) for each in found)
        return cls(
            sum(each.endpoints for each in found),
            sum(each.slices for each in found),
            max(least, needed),
        )

    def __add__(self, other: "SliceTotals") -> "SliceTotals":
        """Return the sums."""
        return SliceTotals(
            self.endpoints + other.endpoints,
            self.slices + other.slices,
            self.desired_slices + other.desired_slices,
        )


_NONE: Final = SliceTotals()


class SliceMetrics:
    """Counts the writes of slices, and shows the totals of all owners of slices."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        """Register the collectors; all their names begin with the prefix."""

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"{prefix}_{name}", text, registry=registry)

        self._endpoints = gauge("endpoints_desired", "Number of endpoints desired")
        self._slices = gauge("num_endpoint_slices", "Number of EndpointSlices")
        self._desired_slices = gauge(
            "desired_endpoint_slices",
            "Number of EndpointSlices that would exist with perfect endpoint "
            "allocation",
        )
        self._changes = PlainCounter(
            f"{prefix}_changes",
            "Number of EndpointSlice changes",
            ["operation"],
            registry=registry,
        )
        for operation in _OPERATIONS:
            self._changes.labels(operation)
        self._totals: dict[str, SliceTotals] = {}

    def wrote(self, operation: str) -> None:
        """Count a write of a slice: ``create``, ``update`` or ``delete``."""
        self._changes.labels(operation).inc()

    def show(self, key: str, totals: SliceTotals) -> None:
        """Show the totals of one owner of slices, in place of its former ones.

        The gauges change by the difference, so that the cost does not depend on the
        number of owners.
        """
        former = self._totals.pop(key, _NONE)
        if totals != _NONE:
            self._totals[key] = totals
        self._endpoints.inc(totals.endpoints - former.endpoints)
        self._slices.inc(totals.slices - former.slices)
        self._desired_slices.inc(totals.desired_slices - former.desired_slices)

    def forget(self, key: str) -> None:
        """Show no totals of an owner of slices that is gone."""
        self.show(key, _NONE)
