"""Names of volumes, and the metric of operations on them (pkg/volume/util)."""

from typing import Final

from prometheus_client import CollectorRegistry, Histogram

from controller_manager.api.core.volume_sources import FCSource, ISCSISource

ISCSI: Final = "kubernetes.io/iscsi"
FC: Final = "kubernetes.io/fc"


def disk_name(iscsi: ISCSISource | None, fc: FCSource | None) -> str:
    """Return the unique name of an iSCSI or Fibre Channel disk, "" if none is named."""
    if iscsi is not None:
        return f"{ISCSI}/{iscsi.target_portal}:{iscsi.iqn}:{iscsi.lun}"
    if fc is None:
        return ""
    if fc.target_wwns and fc.lun is not None:
        return f"{FC}/[{' '.join(fc.target_wwns)}]:{fc.lun}"
    return f"{FC}/[{' '.join(fc.wwids)}]" if fc.wwids else ""


_BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)


class StorageOperationMetrics:
    """``storage_operation_duration_seconds`` (pkg/volume/util/metrics.go)."""

    def __init__(self, registry: CollectorRegistry) -> None:
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
