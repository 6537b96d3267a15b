"""The flags of the quota controller."""

from controller_manager.options.checks import not_negative
from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag, concurrency


class ResourceQuotaOptions(ControllerOptions):
    """The number of workers, and the period of the recount of all quotas."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-resource-quota-syncs",
            5,
            "ResourceQuotaController.ConcurrentResourceQuotaSyncs",
            "resource quotas",
        )
    )
    sync_period: float = option(
        Flag(
            "resource-quota-sync-period",
            "duration",
            "5m0s",
            "The period for syncing the usage of quotas.",
            "ResourceQuotaController.ResourceQuotaSyncPeriod",
            check=not_negative,
        )
    )
