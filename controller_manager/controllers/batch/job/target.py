"""What a job is about to become: failed or complete, and why (syncJob).

The condition FailureTarget or SuccessCriteriaMet says so first. Failed or Complete
follows when all pods have ended and are counted.
"""

from datetime import datetime
from typing import Final

from msgspec import Struct

from controller_manager.api.batch.v1 import Job, JobCondition
from controller_manager.api.times import parse_time, seconds_after
from controller_manager.controllers.batch.job.assessment import Assessment
from controller_manager.controllers.batch.job.conditions import (
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    SUSPENDED,
    true_condition,
)
from controller_manager.controllers.batch.job.failure_policy import FAIL_JOB, match
from controller_manager.controllers.batch.job.spec import (
    backoff_limit,
    index_count,
    is_suspended,
    restarts_containers,
)
from controller_manager.controllers.batch.job.success_policy import satisfied

_RUNNING: Final = ("Running", "Pending")


class Target(Struct, frozen=True):
    """FailureTarget or SuccessCriteriaMet, with its reason."""

    type: str
    reason: str
    message: str

    @property
    def is_failure(self) -> bool:
        """Whether the job fails."""
        return self.type == FAILURE_TARGET


_TOO_MANY_FAILURES: Final = Target(
    FAILURE_TARGET,
    "BackoffLimitExceeded",
    "Job has reached the specified backoff limit",
)
_TOO_LATE: Final = Target(
    FAILURE_TARGET,
    "DeadlineExceeded",
    "Job was active longer than specified deadline",
)
_TOO_MANY_FAILED_INDEXES: Final = Target(
    FAILURE_TARGET,
    "MaxFailedIndexesExceeded",
    "Job has exceeded the specified maximal number of failed indexes",
)
_FAILED_INDEXES: Final = Target(
    FAILURE_TARGET, "FailedIndexes", "Job has failed indexes"
)
COMPLETIONS_REACHED: Final = Target(
    SUCCESS_CRITERIA_MET,
    "CompletionsReached",
    "Reached expected number of succeeded pods",
)


def find_target(assessment: Assessment, now: datetime) -> Target | None:
    """Return the reason for which the job ends now, `None` if it goes on.

    A target that the status has already is final. A job whose completions are reached
    is not found here, because that depends on the pods that are left: see
    `completed`.
    """
    return (
        _standing(assessment.job)
        or _failed_by_policy(assessment)
        or _failed_by_limit(assessment, now)
        or _failed_by_indexes(assessment)
        or _succeeded_by_policy(assessment)
    )


def completed(assessment: Assessment, active: int) -> Target | None:
    """Return the target of a job that has all its successes and no `active` pod left.

    A job without completions needs one success.
    """
    completions = assessment.job.spec.completions
    wanted = 1 if completions is None else completions
    return (
        COMPLETIONS_REACHED if assessment.succeeded >= wanted and not active else None
    )


def seconds_to_deadline(job: Job, now: datetime) -> float | None:
    """Return the seconds until activeDeadlineSeconds are over, 0 or less afterwards.

    `None` if the job has no deadline, has not started, or is suspended. A job that is
    about to be resumed starts now: managers before 1.35 left the old start time.
    """
    limit, start = job.spec.active_deadline_seconds, job.status.start_time
    if limit is None or start is None or is_suspended(job):
        return None
    if true_condition(job, SUSPENDED) is not None:
        return float(limit)
    return (seconds_after(parse_time(start), limit) - now).total_seconds()


def _standing(job: Job) -> Target | None:
    for condition_type in (SUCCESS_CRITERIA_MET, FAILURE_TARGET):
        standing = true_condition(job, condition_type)
        if standing is not None:
            return _target(standing)
    return None


def _target(condition: JobCondition) -> Target:
    return Target(condition.type, condition.reason, condition.message)


def _failed_by_policy(assessment: Assessment) -> Target | None:
    job = assessment.job
    policy = job.spec.pod_failure_policy
    for pod in assessment.pods if policy is not None else ():
        if not assessment.fails(pod):
            continue
        verdict = match(policy, pod)
        if verdict is not None and verdict.action == FAIL_JOB:
            return Target(FAILURE_TARGET, "PodFailurePolicy", verdict.message)
    return None


def _failed_by_limit(assessment: Assessment, now: datetime) -> Target | None:
    job = assessment.job
    if assessment.failed > backoff_limit(job) or _has_too_many_restarts(assessment):
        return _TOO_MANY_FAILURES
    left = seconds_to_deadline(job, now)
    return _TOO_LATE if left is not None and left <= 0 else None


def _has_too_many_restarts(assessment: Assessment) -> bool:
    """Tell whether containers were restarted as often as pods may fail.

    Upstream compares restarts by "at least", and failed pods by "more than".
    """
    job = assessment.job
    restarts = sum(
        status.restart_count
        for pod in assessment.pods
        if pod.status.phase in _RUNNING
        for status in (
            *(pod.status.init_container_statuses or ()),
            *(pod.status.container_statuses or ()),
        )
    )
    return restarts >= max(backoff_limit(job), 1) and restarts_containers(job)


def _failed_by_indexes(assessment: Assessment) -> Target | None:
    failed = assessment.failed_indexes
    if not failed:
        return None
    spec = assessment.job.spec
    if spec.max_failed_indexes is not None and len(failed) > spec.max_failed_indexes:
        return _TOO_MANY_FAILED_INDEXES
    ended = len(failed) + len(assessment.completed)
    return _FAILED_INDEXES if ended >= index_count(assessment.job) else None


def _succeeded_by_policy(assessment: Assessment) -> Target | None:
    job = assessment.job
    message = satisfied(job.spec.success_policy, assessment.completed, index_count(job))
    if message is None:
        return None
    return Target(SUCCESS_CRITERIA_MET, "SuccessPolicy", message)
