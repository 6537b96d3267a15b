"""Metrics of operations on volumes, which several controllers share."""

from typing import Final

from prometheus_client import CollectorRegistry, Histogram

_BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)


class StorageOperationMetrics:
    """``storage_operation_duration_seconds`` (pkg/volume/util/metrics.go)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collector."""
        self._seconds = Histogram(
            "storage_operation_duration_seconds",
            "Seconds that operations on volumes took",
            ["volume_plugin", "operation_name", "status", "migrated"],
            buckets=_BUCKETS,
            registry=registry,
        )

    def observe(
        self,
        plugin: str,
        operation: str,
        seconds: float,
        *,
        failed: bool = False,
        migrated: bool = False,
    ) -> None:
        """Observe an operation that has ended.

        `plugin` is that of the volume, with the driver if it is one of CSI. `migrated`
        says that the driver has replaced the plugin of the volume.
        """
        status = "fail-unknown" if failed else "success"
        labels = (plugin, operation, status, str(migrated).lower())
        self._seconds.labels(*labels).observe(seconds)
