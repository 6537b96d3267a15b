"""Metrics of the garbage collector, with upstream's names."""

from prometheus_client import CollectorRegistry, Counter


class GarbageCollectorMetrics:
    """The ``garbagecollector_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._errors = Counter(
            "garbagecollector_controller_resources_sync_error_total",
            "Number of garbage collector resources sync errors",
            registry=registry,
        )

    def sync_failed(self) -> None:
        """Count a sync in which not all resources could be discovered or read."""
        self._errors.inc()
