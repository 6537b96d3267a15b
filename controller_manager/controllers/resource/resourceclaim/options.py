"""The feature gates and the flag of the resource claim controller."""

from typing import Final

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency
from controller_manager.options.gates import Gate

DYNAMIC_ALLOCATION: Final = Gate("DynamicResourceAllocation", locked=True)
"""An API server has claims to devices."""

ADMIN_ACCESS: Final = Gate("DRAAdminAccess", locked=True)
"""Claims may request devices that other claims use, in namespaces that allow it."""

WORKLOAD_CLAIMS: Final = Gate("DRAWorkloadResourceClaims", "ALPHA", default=False)
"""A group of pods may have claims that its pods share."""

GRANULAR_AUTHORIZATION: Final = Gate("DRAResourceClaimGranularStatusAuthorization")
"""An API server allows the reservation of a claim to who may update its binding."""


class ResourceClaimOptions(ControllerOptions):
    """The number of concurrent syncs of pods and claims."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-resourceclaim-syncs",
            50,
            "ResourceClaimController.ConcurrentSyncs",
            "resource claims",
        )
    )
