"""The flags of the device taint eviction controller."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency


class DeviceTaintEvictionOptions(ControllerOptions):
    """How many pods and rules are worked on at a time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-device-taint-eviction-syncs",
            8,
            "DeviceTaintEvictionController.ConcurrentSyncs",
            "operations",
        )
    )
