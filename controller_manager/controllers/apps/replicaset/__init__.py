"""replicaset-controller: keeps as many pods as a replica set wants."""

from typing import Final

from controller_manager.api.apps.v1 import REPLICASETS
from controller_manager.api.core.v1 import PODS
from controller_manager.control.gates import (
    LOGARITHMIC_SCALE_DOWN,
    POD_DELETION_COST,
    TERMINATING_REPLICAS,
)
from controller_manager.control.replicas import METRICS, READS
from controller_manager.options.controller_options import ControllerOptions, concurrency
from controller_manager.options.gates import ATOMIC_FIFO, Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

READS_OWN_WRITES: Final = Gate(
    "StaleControllerConsistencyReplicaSet", depends_on=(ATOMIC_FIFO.name,)
)
"""A replica set is not synced before the caches show the writes of its last sync."""


class ReplicaSetOptions(ControllerOptions):
    """The number of replica sets that are synced at the same time."""

    concurrent_syncs: int = concurrency(
        "concurrent-replicaset-syncs",
        5,
        "ReplicaSetController.ConcurrentRSSyncs",
        "replica sets",
    )


CONTROLLER = Descriptor(
    name="replicaset-controller",
    aliases=("replicaset",),
    load=".controller:ReplicaSetReconciler",
    requires=(REPLICASETS, PODS),
    makes=((PODS, "ReplicaSet"),),
    reads=READS,
    options=ReplicaSetOptions,
    gates=(
        LOGARITHMIC_SCALE_DOWN,
        POD_DELETION_COST,
        READS_OWN_WRITES,
        TERMINATING_REPLICAS,
    ),
    permissions=(
        allow(REPLICASETS, "get", "list", "update", "watch"),
        allow(REPLICASETS, "update", subresource="status"),
        allow(REPLICASETS, "update", subresource="finalizers"),
        allow(PODS, "create", "delete", "list", "patch", "watch"),
        *RECORD_EVENTS,
    ),
    metrics=METRICS,
)
