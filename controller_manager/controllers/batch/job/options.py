"""The flags of the job controller."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency


class JobOptions(ControllerOptions):
    """How many jobs are synced at a time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-job-syncs",
            5,
            "JobController.ConcurrentJobSyncs",
            "jobs",
        )
    )
