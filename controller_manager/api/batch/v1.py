"""batch/v1: jobs and cron jobs."""

from typing import Final

from msgspec import Raw
from msgspec.structs import force_setattr

from controller_manager.api.core.v1 import ObjectReference, PodTemplateSpec
from controller_manager.api.meta import APIStruct, CompleteObject, ObjectMeta, Resource
from controller_manager.api.selectors import LabelSelector

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
"""The types of the conditions of a job that has ended."""


class PodFailurePolicyOnExitCodesRequirement(APIStruct, frozen=True):
    """The exit codes of containers that a rule is about."""

    container_name: str | None = None
    operator: str = ""
    values: tuple[int, ...] | None = None


class PodFailurePolicyOnPodConditionsPattern(APIStruct, frozen=True):
    """A condition of a pod that a rule is about."""

    type: str = ""
    status: str = ""


class PodFailurePolicyRule(APIStruct, frozen=True):
    """The action on a failed pod that meets the requirements."""

    action: str = ""
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: tuple[PodFailurePolicyOnPodConditionsPattern, ...] | None = None


class PodFailurePolicy(APIStruct, frozen=True):
    """The rules for failed pods of a job: the first rule that matches decides."""

    rules: tuple[PodFailurePolicyRule, ...] | None = None


class SuccessPolicyRule(APIStruct, frozen=True):
    """The indexes, or the number of indexes, that must succeed."""

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(APIStruct, frozen=True):
    """The rules by which an indexed job succeeds before all its indexes have."""

    rules: tuple[SuccessPolicyRule, ...] | None = None


class JobSpec(APIStruct, frozen=True):
    """All of a job's spec."""

    parallelism: int | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    ttl_seconds_after_finished: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    pod_replacement_policy: str | None = None
    managed_by: str | None = None


class JobCondition(APIStruct, frozen=True):
    """One condition of a job."""

    type: str = ""
    status: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class UncountedTerminatedPods(APIStruct, frozen=True):
    """The uids of ended pods that are not in the counts of the status yet."""

    succeeded: tuple[str, ...] | None = None
    failed: tuple[str, ...] | None = None


class JobStatus(APIStruct, frozen=True):
    """All of a job's status."""

    conditions: tuple[JobCondition, ...] | None = None
    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None
    ready: int | None = None


class Job(CompleteObject, frozen=True):
    """A job: pods that run until enough of them have succeeded."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


def end_condition(job: Job) -> JobCondition | None:
    """Return the true condition Complete or Failed of a job, `None` before its end.

    Upstream: FinishedCondition in pkg/controller/job/util/utils.go.
    """
    for condition in job.status.conditions or ():
        if condition.type in (COMPLETE, FAILED) and condition.status == "True":
            return condition
    return None


class JobTemplateSpec(APIStruct, frozen=True):
    """The template of the jobs of a cron job; its spec is only copied."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Raw = Raw(b"{}")

    def __post_init__(self) -> None:
        """Copy the bytes out of the message that they were decoded from."""
        force_setattr(self, "spec", self.spec.copy())


class CronJobSpec(APIStruct, frozen=True):
    """All of a cron job's spec."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = ""
    suspend: bool | None = None
    job_template: JobTemplateSpec = JobTemplateSpec()
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class CronJobStatus(APIStruct, frozen=True):
    """All of a cron job's status."""

    active: tuple[ObjectReference, ...] | None = None
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(CompleteObject, frozen=True):
    """A cron job: creates a job at each time of its schedule."""

    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()


JOBS: Resource[Job] = Resource("batch", "v1", "jobs", "Job", Job)


CRON_JOBS: Resource[CronJob] = Resource("batch", "v1", "cronjobs", "CronJob", CronJob)
