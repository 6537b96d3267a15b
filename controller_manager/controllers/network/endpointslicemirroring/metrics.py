"""The metrics of the mirroring controller, with upstream's names (metrics/)."""

from typing import Final

from prometheus_client import CollectorRegistry, Histogram

from controller_manager.control.endpoints.slices.metrics import (
    SliceMetrics,
    SliceTotals,
)

from .decide import Decision

_PREFIX: Final = "endpoint_slice_mirroring_controller"
_COUNTS: Final = tuple(2.0 * 2**power for power in range(15))
_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))


class MirroringMetrics(SliceMetrics):
    """The ``endpoint_slice_mirroring_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        super().__init__(registry, _PREFIX)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(
                f"{_PREFIX}_{name}", text, buckets=buckets, registry=registry
            )

        def of_endpoints(verb: str) -> Histogram:
            text = f"Number of endpoints {verb} on each Endpoints sync"
            return histogram(f"endpoints_{verb}_per_sync", text, _COUNTS)

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

    def mirrored(self, key: str, found: Decision, limit: int) -> None:
        """Observe a sync of the Endpoints of `key`; `limit` is that of a slice."""
        self._added.observe(found.totals.added)
        self._updated.observe(found.totals.updated)
        self._removed.observe(found.totals.removed)
        self._skipped.observe(found.desired.skipped)
        self.show(key, SliceTotals.of(found.usage, limit))

    def synced(self, seconds: float) -> None:
        """Observe how long a sync took."""
        self._duration.observe(seconds)
