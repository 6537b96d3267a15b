"""The feature gates of taints of devices."""

from typing import Final

from controller_manager.options.gates import Gate

TAINTS: Final = Gate("DRADeviceTaints")
"""Drivers taint devices, and pods that use them are evicted."""

TAINT_RULES: Final = Gate(
    "DRADeviceTaintRules", default=False, depends_on=(TAINTS.name,)
)
"""Administrators taint devices by rules."""
