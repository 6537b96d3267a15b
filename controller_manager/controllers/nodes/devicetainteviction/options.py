"""The feature gates and the flag of the device taint eviction controller."""

from typing import Final

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency
from controller_manager.options.gates import Gate

TAINTS: Final = Gate("DRADeviceTaints")
"""Drivers taint devices, and pods that use them are evicted."""

TAINT_RULES: Final = Gate(
    "DRADeviceTaintRules", default=False, depends_on=(TAINTS.name,)
)
"""Administrators taint devices by rules."""


class DeviceTaintEvictionOptions(ControllerOptions):
    """The number of concurrent syncs of pods and rules."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-device-taint-eviction-syncs",
            8,
            "DeviceTaintEvictionController.ConcurrentSyncs",
            "operations",
        )
    )
