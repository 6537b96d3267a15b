"""Metrics of replica sets and replication controllers, with upstream's names."""

from typing import Final

from prometheus_client import CollectorRegistry, Histogram

from controller_manager.api.apps.v1 import REPLICASETS
from controller_manager.api.core.v1 import PODS
from controller_manager.control.stale_syncs import StaleSyncs

_AGE_RATIO: Final = (0.25, 0.5, 1, 2, 4, 8)


class ReplicaSetMetrics:
    """The ``replicaset_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self.age_ratio = Histogram(
            "replicaset_controller_sorting_deletion_age_ratio",
            "Ratio of a deleted pod's age to that of the youngest ready pod",
            buckets=_AGE_RATIO,
            registry=registry,
        )
        self.stale_syncs = StaleSyncs(
            registry, "replicaset_controller", REPLICASETS, PODS
        )
