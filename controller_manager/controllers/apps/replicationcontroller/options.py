"""The flags of the replication controller manager."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency


class ReplicationControllerOptions(ControllerOptions):
    """The number of replication controllers that are synced at the same time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-rc-syncs",
            5,
            "ReplicationController.ConcurrentRCSyncs",
            "replication controllers",
        )
    )
