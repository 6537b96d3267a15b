"""Metrics of the device taint eviction controller, with upstream's names."""

from prometheus_client import CollectorRegistry

from controller_manager.control.pod_evictor import EvictionMetrics


class DeviceTaintEvictionMetrics(EvictionMetrics):
    """The ``device_taint_eviction_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        super().__init__(registry, "device_taint_eviction_controller")
