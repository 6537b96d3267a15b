"""The flag of the resource claim controller."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency


class ResourceClaimOptions(ControllerOptions):
    """How many pods and claims are worked on at a time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-resourceclaim-syncs",
            50,
            "ResourceClaimController.ConcurrentSyncs",
            "resource claims",
        )
    )
