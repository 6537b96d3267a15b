"""job-controller: runs pods until enough of them have succeeded."""

from typing import Final

from controller_manager.api.batch.v1 import JOBS
from controller_manager.api.core.v1 import (
    JOB_COMPLETION_INDEX,
    JOB_INDEX_FAILURE_COUNT,
    JOB_INDEX_IGNORED_FAILURE_COUNT,
    PODS,
)
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS, WORKLOADS
from controller_manager.informers.reads import Reads
from controller_manager.options.controller_options import ControllerOptions, concurrency
from controller_manager.options.gates import ATOMIC_FIFO, Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow


class JobOptions(ControllerOptions):
    """The number of jobs that are synced at a time."""

    concurrent_syncs: int = concurrency(
        "concurrent-job-syncs", 5, "JobController.ConcurrentJobSyncs", "jobs"
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

CONTROLLER = Descriptor(
    name="job-controller",
    aliases=("job",),
    load=".controller:init_job_controller",
    requires=(JOBS, PODS),
    makes=((PODS, "Job"),),
    gated_requires=((WORKLOAD_WITH_JOB, (WORKLOADS, POD_GROUPS)),),
    reads=(
        Reads(
            PODS,
            "metadata.deletionGracePeriodSeconds",
            f"metadata.annotations[{JOB_COMPLETION_INDEX}]",
            f"metadata.annotations[{JOB_INDEX_FAILURE_COUNT}]",
            f"metadata.annotations[{JOB_INDEX_IGNORED_FAILURE_COUNT}]",
            "spec.nodeName",
            *("spec.initContainers.name", "spec.initContainers.restartPolicy"),
            *("status.phase", "status.conditions"),
            *(
                f"status.{statuses}.{field}"
                for statuses in ("containerStatuses", "initContainerStatuses")
                for field in ("name", "restartCount", "state")
            ),
        ),
    ),
    options=JobOptions,
    gates=(MUTABLE_DIRECTIVES, READS_OWN_WRITES, WORKLOAD_WITH_JOB),
    permissions=(
        allow(JOBS, "get", "list", "patch", "update", "watch"),
        allow(JOBS, "update", subresource="status"),
        allow(JOBS, "update", subresource="finalizers"),
        allow(PODS, "create", "delete", "list", "patch", "watch"),
        *RECORD_EVENTS,
    ),
    gated_permissions=(
        (
            WORKLOAD_WITH_JOB,
            (
                allow(WORKLOADS, "create", "get", "list", "watch"),
                allow(POD_GROUPS, "create", "get", "list", "watch"),
            ),
        ),
    ),
    metrics=(
        "job_controller_job_finished_indexes_total",
        "job_controller_job_pods_creation_total",
        "job_controller_job_pods_finished_total",
        "job_controller_job_sync_duration_seconds",
        "job_controller_job_syncs_total",
        "job_controller_jobs_by_external_controller_total",
        "job_controller_jobs_finished_total",
        "job_controller_pod_failures_handled_by_failure_policy_total",
        "job_controller_stale_sync_skips_total",
        "job_controller_terminated_pods_tracking_finalizer_total",
    ),
)
