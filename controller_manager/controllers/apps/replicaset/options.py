"""The flags and the feature gate of the replica set controller."""

from typing import Final

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency
from controller_manager.options.gates import ATOMIC_FIFO, Gate

READS_OWN_WRITES: Final = Gate(
    "StaleControllerConsistencyReplicaSet", depends_on=(ATOMIC_FIFO.name,)
)
"""A replica set is not synced before the caches show the writes of its last sync."""


class ReplicaSetOptions(ControllerOptions):
    """The number of replica sets that are synced at the same time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-replicaset-syncs",
            5,
            "ReplicaSetController.ConcurrentRSSyncs",
            "replica sets",
        )
    )
