"""The flags of the TTL-after-finished controller."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency


class TTLAfterFinishedOptions(ControllerOptions):
    """The number of finished objects that are synced at a time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-ttl-after-finished-syncs",
            5,
            "TTLAfterFinishedController.ConcurrentTTLSyncs",
            "finished objects",
        )
    )
