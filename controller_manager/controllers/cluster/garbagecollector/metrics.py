"""What the garbage collector measures, as upstream names it."""

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
        """Count a time that not all resources could be found or read."""
        self._errors.inc()
