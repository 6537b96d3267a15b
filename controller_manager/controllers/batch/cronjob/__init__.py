"""cronjob-controller: creates jobs at the times of a schedule."""

from controller_manager.api.batch.v1 import CRON_JOBS, JOBS
from controller_manager.api.core.v1 import PODS
from controller_manager.options.controller_options import ControllerOptions, concurrency
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow


class CronJobOptions(ControllerOptions):
    """The number of cron jobs that are synced at a time."""

    concurrent_syncs: int = concurrency(
        "concurrent-cron-job-syncs",
        5,
        "CronJobController.ConcurrentCronJobSyncs",
        "cron jobs",
    )


CONTROLLER = Descriptor(
    name="cronjob-controller",
    aliases=("cronjob",),
    load=".controller:CronJobReconciler",
    requires=(CRON_JOBS, JOBS),
    makes=((JOBS, "CronJob"),),
    options=CronJobOptions,
    permissions=(
        allow(CRON_JOBS, "get", "list", "update", "watch"),
        allow(CRON_JOBS, "update", subresource="status"),
        allow(CRON_JOBS, "update", subresource="finalizers"),
        allow(JOBS, "create", "delete", "get", "list", "patch", "update", "watch"),
        allow(PODS, "delete", "list", "watch"),
        *RECORD_EVENTS,
    ),
    metrics=("cronjob_controller_job_creation_skew_duration_seconds",),
)
