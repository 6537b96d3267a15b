"""The feature gate of requests for the status of pools."""

from typing import Final

from controller_manager.options.gates import Gate

POOL_STATUS: Final = Gate("DRAResourcePoolStatus", "ALPHA", default=False)
"""An API server has requests for the status of pools."""
