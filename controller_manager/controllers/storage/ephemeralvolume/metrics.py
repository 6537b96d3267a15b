"""Metrics of the controller of ephemeral volumes, with upstream's names."""

from prometheus_client import CollectorRegistry, Counter


class EphemeralVolumeMetrics:
    """The ``ephemeral_volume_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        prefix = "ephemeral_volume_controller"
        self._created = Counter(
            f"{prefix}_create_total",
            "Number of requests that create a PersistentVolumeClaim",
            registry=registry,
        )
        self._failed = Counter(
            f"{prefix}_create_failures_total",
            "Number of requests that could not create a PersistentVolumeClaim",
            registry=registry,
        )

    def attempted(self) -> None:
        """Count a request."""
        self._created.inc()

    def failed(self) -> None:
        """Count a request that has failed."""
        self._failed.inc()
