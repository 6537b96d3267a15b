"""The feature gates of the job controller."""

from typing import Final

from controller_manager.options.gates import ATOMIC_FIFO, Gate

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
