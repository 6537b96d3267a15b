"""The flags of the garbage collector."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag, concurrency


class GarbageCollectorOptions(ControllerOptions):
    """The switch of the garbage collector, and the number of workers of each queue."""

    enabled: bool = option(
        Flag(
            "enable-garbage-collector",
            "bool",
            "true",
            "Enable the garbage collector; must agree with the API server's flag.",
            "GarbageCollectorController.EnableGarbageCollector",
        )
    )
    concurrent_syncs: int = option(
        concurrency(
            "concurrent-gc-syncs",
            20,
            "GarbageCollectorController.ConcurrentGCSyncs",
            "garbage collector workers",
        )
    )
