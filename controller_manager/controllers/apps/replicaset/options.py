"""The flags of the replica set controller."""

from dataclasses import dataclass

from controller_manager.options.controller_options import option
from controller_manager.options.flag import concurrency


@dataclass(frozen=True, slots=True)
class ReplicaSetOptions:
    """How many replica sets are synced at a time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-replicaset-syncs",
            5,
            "ReplicaSetController.ConcurrentRSSyncs",
            "replica sets",
        )
    )
