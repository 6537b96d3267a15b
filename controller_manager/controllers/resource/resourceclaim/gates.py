"""The feature gates of claims to devices."""

from typing import Final

from controller_manager.options.gates import Gate

DYNAMIC_ALLOCATION: Final = Gate("DynamicResourceAllocation", locked=True)
"""An API server has claims to devices."""

ADMIN_ACCESS: Final = Gate("DRAAdminAccess", locked=True)
"""Claims may ask for devices that others use, in namespaces that allow it."""

WORKLOAD_CLAIMS: Final = Gate("DRAWorkloadResourceClaims", "ALPHA", default=False)
"""A group of pods may have claims that its pods share."""
