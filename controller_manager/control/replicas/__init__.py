"""Keeps a number of pods: the core of replicaset and replicationcontroller."""

from typing import Final

from controller_manager.api.core.v1 import POD_DELETION_COST, PODS
from controller_manager.informers.reads import Reads

METRICS: Final = (
    "replicaset_controller_sorting_deletion_age_ratio",
    "replicaset_controller_stale_sync_skips_total",
)
"""The names of the metrics in ``metrics``."""

READS: Final = (
    Reads(
        PODS,
        f"metadata.annotations[{POD_DELETION_COST}]",
        "spec.nodeName",
        *("spec.initContainers.name", "spec.initContainers.restartPolicy"),
        "status.phase",
        *("status.conditions[Ready]", "status.conditions[DisruptionTarget]"),
        "status.containerStatuses.restartCount",
        "status.initContainerStatuses.name",
        "status.initContainerStatuses.restartCount",
    ),
)
"""The fields that are read of cached pods."""
