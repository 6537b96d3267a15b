"""The flags and the feature gates of the job controller."""

from typing import Final

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency
from controller_manager.options.gates import ATOMIC_FIFO, Gate


class JobOptions(ControllerOptions):
    """The number of jobs that are synced at a time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-job-syncs",
            5,
            "JobController.ConcurrentJobSyncs",
            "jobs",
        )
    )


READS_OWN_WRITES: Final = Gate(
    "StaleControllerConsistencyJob", depends_on=(ATOMIC_FIFO.name,)
)
"""A job is not synced before the caches show the writes of its last sync."""

WORKLOAD_WITH_JOB: Final = Gate(
    "WorkloadWithJob", "ALPHA", default=False, depends_on=("GenericWorkload",)
)
"""The pods of a job that need each other are scheduled together."""

MUTABLE_DIRECTIVES: Final = Gate("MutableSchedulingDirectivesForSuspendedJobs")
"""A job that is suspended may change where its pods run; it has no start time then."""
