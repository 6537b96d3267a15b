"""The flags of the cron job controller."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency


class CronJobOptions(ControllerOptions):
    """The number of cron jobs that are synced at a time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-cron-job-syncs",
            5,
            "CronJobController.ConcurrentCronJobSyncs",
            "cron jobs",
        )
    )
