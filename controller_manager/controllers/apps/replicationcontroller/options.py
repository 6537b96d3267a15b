"""The flags of the replication controller manager."""

from dataclasses import dataclass

from controller_manager.options.controller_options import option
from controller_manager.options.flag import concurrency


@dataclass(frozen=True, slots=True)
class ReplicationControllerOptions:
    """How many replication controllers are synced at a time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-rc-syncs",
            5,
            "ReplicationController.ConcurrentRCSyncs",
            "replication controllers",
        )
    )
