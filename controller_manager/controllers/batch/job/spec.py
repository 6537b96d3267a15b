"""The fields of a job's spec, with the API server's defaults."""

from typing import Final

from controller_manager.api.batch.v1 import Job
from controller_manager.api.core.v1 import Pod

INDEXED: Final = "Indexed"
NON_INDEXED: Final = "NonIndexed"

CONTROLLER_NAME: Final = "kubernetes.io/job-controller"
"""The value of ``spec.managedBy`` that names this controller."""

_FAILED: Final = "Failed"


def external_manager(job: Job) -> str | None:
    """Return the name of the other controller that manages the job, if any."""
    name = job.spec.managed_by
    return None if name in (None, CONTROLLER_NAME) else name


def completion_mode(job: Job) -> str:
    """Return the completion mode."""
    return job.spec.completion_mode or NON_INDEXED


def is_indexed(job: Job) -> bool:
    """Tell whether each pod has a completion index."""
    return job.spec.completion_mode == INDEXED


def is_suspended(job: Job) -> bool:
    """Tell whether the job is suspended: then it has no pods."""
    return bool(job.spec.suspend)


def parallelism(job: Job) -> int:
    """Return the number of pods that may run at a time."""
    return 1 if job.spec.parallelism is None else job.spec.parallelism


def index_count(job: Job) -> int:
    """Return the number of indexes of an indexed job: its completions."""
    return job.spec.completions or 0


def has_limit_per_index(job: Job) -> bool:
    """Tell whether each index has a limit of its own."""
    return is_indexed(job) and job.spec.backoff_limit_per_index is not None


def replaces_only_failed(job: Job) -> bool:
    """Tell whether a terminating pod is replaced only when it has ended."""
    spec = job.spec
    return spec.pod_replacement_policy == _FAILED or spec.pod_failure_policy is not None


def is_failed(pod: Pod, job: Job) -> bool:
    """Tell whether a pod of the job counts as failed (isPodFailed).

    A pod that is being deleted counts at once, because it may never get the phase
    Failed; it does not if only failed pods are replaced.
    """
    if pod.status.phase == "Failed":
        return True
    if replaces_only_failed(job):
        return False
    return bool(pod.metadata.deletion_timestamp) and pod.status.phase != "Succeeded"
