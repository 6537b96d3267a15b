"""The flags of the replica set controller."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency


class ReplicaSetOptions(ControllerOptions):
    """How many replica sets are synced at a time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-replicaset-syncs",
            5,
            "ReplicaSetController.ConcurrentRSSyncs",
            "replica sets",
        )
    )
