"""The flags of the TTL-after-finished controller."""

from dataclasses import dataclass

from controller_manager.options.controller_options import option
from controller_manager.options.flag import concurrency


@dataclass(frozen=True, slots=True)
class TTLAfterFinishedOptions:
    """How many finished objects are synced at a time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-ttl-after-finished-syncs",
            5,
            "TTLAfterFinishedController.ConcurrentTTLSyncs",
            "finished objects",
        )
    )
