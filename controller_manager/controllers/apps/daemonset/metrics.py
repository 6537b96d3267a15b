"""Metrics of daemon sets, with upstream's names."""

from prometheus_client import CollectorRegistry

from controller_manager.api.apps.v1 import DAEMON_SETS
from controller_manager.api.core.v1 import PODS
from controller_manager.control.stale_syncs import StaleSyncs


class DaemonSetMetrics:
    """The ``daemonset_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self.stale_syncs = StaleSyncs(
            registry, "daemonset_controller", DAEMON_SETS, PODS
        )
