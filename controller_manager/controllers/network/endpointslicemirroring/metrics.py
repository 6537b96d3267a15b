"""The metrics of the mirroring controller, with upstream's names (metrics/)."""

import math
from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from prometheus_client import CollectorRegistry, Gauge, Histogram

from controller_manager.controllers.network.endpointslicemirroring.mirror import (
    Efficiency,
    Mirror,
)
from controller_manager.observability.plain_counter import PlainCounter

_PREFIX: Final = "endpoint_slice_mirroring_controller"
_COUNTS: Final = tuple(2.0 * 2**power for power in range(15))
_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))
_OPERATIONS: Final = ("create", "update", "delete")


class _Sizes(Struct, frozen=True):
    """How many endpoints and slices there are, and how few slices would do."""

    endpoints: int = 0
    slices: int = 0
    desired_slices: int = 0

    @classmethod
    def of(cls, groups: Iterable[Efficiency], limit: int) -> "_Sizes":
        """Return the sizes of some Endpoints; `limit` is that of a slice."""
        found = list(groups)
        return cls(
            sum(each.endpoints for each in found),
            sum(each.slices for each in found),
            sum(math.ceil(each.endpoints / limit) for each in found),
        )

    def changed(self, before: "_Sizes", after: "_Sizes") -> "_Sizes":
        """Return these totals after one part of them has changed."""
        return _Sizes(
            self.endpoints - before.endpoints + after.endpoints,
            self.slices - before.slices + after.slices,
            self.desired_slices - before.desired_slices + after.desired_slices,
        )


class MirroringMetrics:
    """The ``endpoint_slice_mirroring_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(
                f"{_PREFIX}_{name}", text, buckets=buckets, registry=registry
            )

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"{_PREFIX}_{name}", text, registry=registry)

        def of_endpoints(what: str) -> Histogram:
            text = f"Number of endpoints {what} on each Endpoints sync"
            return histogram(f"endpoints_{what}_per_sync", text, _COUNTS)

        self._added = of_endpoints("added")
        self._updated = of_endpoints("updated")
        self._removed = of_endpoints("removed")
        self._skipped = histogram(
            "addresses_skipped_per_sync",
            "Number of addresses skipped on each Endpoints sync due to being invalid "
            "or exceeding MaxEndpointsPerSubset",
            _COUNTS,
        )
        self._duration = histogram(
            "endpoints_sync_duration",
            "Duration of syncEndpoints() in seconds",
            _SECONDS,
        )
        self._endpoints = gauge("endpoints_desired", "Number of endpoints desired")
        self._slices = gauge("num_endpoint_slices", "Number of EndpointSlices")
        self._desired_slices = gauge(
            "desired_endpoint_slices",
            "Number of EndpointSlices that would exist with perfect endpoint "
            "allocation",
        )
        self._changes = PlainCounter(
            f"{_PREFIX}_changes",
            "Number of EndpointSlice changes",
            ("operation",),
            registry,
        )
        for operation in _OPERATIONS:
            self._changes.increment(operation, by=0)
        self._known: dict[str, _Sizes] = {}
        self._total = _Sizes()

    def mirrored(self, key: str, found: Mirror, limit: int) -> None:
        """Observe a sync of the Endpoints of `key`."""
        self._added.observe(found.totals.added)
        self._updated.observe(found.totals.updated)
        self._removed.observe(found.totals.removed)
        self._skipped.observe(found.desired.skipped)
        self._replace(key, _Sizes.of(found.efficiency, limit))

    def forget(self, key: str) -> None:
        """Drop Endpoints that are not mirrored any more."""
        self._replace(key, _Sizes())

    def wrote(self, operation: str) -> None:
        """Count a write of a slice: ``create``, ``update`` or ``delete``."""
        self._changes.increment(operation)

    def synced(self, seconds: float) -> None:
        """Observe how long a sync took."""
        self._duration.observe(seconds)

    def _replace(self, key: str, sizes: "_Sizes") -> None:
        """Change the totals by the difference, so that a sync costs its own only."""
        former = self._known.pop(key, _Sizes())
        if sizes != _Sizes():
            self._known[key] = sizes
        self._total = self._total.changed(former, sizes)
        self._endpoints.set(self._total.endpoints)
        self._slices.set(self._total.slices)
        self._desired_slices.set(self._total.desired_slices)
