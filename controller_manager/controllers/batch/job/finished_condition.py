"""Finds the reason for which a job ends: FailureTarget or SuccessCriteriaMet (syncJob).

The status gets this condition first. Failed or Complete follows when all pods have
ended and are counted.

The rules of a job's successPolicy (success_policy.go).
"""

from datetime import datetime
from typing import Final

from msgspec import Struct

from controller_manager.api.batch.v1 import (
    Job,
    JobCondition,
    SuccessPolicy,
    SuccessPolicyRule,
)
from controller_manager.api.conditions import true_condition
from controller_manager.api.times import parse_time, seconds_after

from .backoff import exceeds_backoff_limit
from .completion_indexes import IndexSet
from .conditions import FAILURE_TARGET, SUCCESS_CRITERIA_MET, SUSPENDED
from .pod_failure_policy import FAIL_JOB, match
from .spec import index_count, is_suspended
from .view import JobView


def satisfied(
    policy: SuccessPolicy | None, succeeded: IndexSet, completions: int
) -> str | None:
    """Return the message of the first rule that is satisfied; `None` if none is.

    The indexes of a rule that are not below `completions` are left out: an elastic
    job may have been made smaller.
    """
    if policy is None or not succeeded:
        return None
    for number, rule in enumerate(policy.rules or ()):
        if _is_satisfied(rule, succeeded, completions):
            return f"Matched rules at index {number}"
    return None


def _is_satisfied(
    rule: SuccessPolicyRule, succeeded: IndexSet, completions: int
) -> bool:
    enough = rule.succeeded_count
    if rule.succeeded_indexes is None:
        return enough is not None and len(succeeded) >= enough
    required = IndexSet.parse(rule.succeeded_indexes, completions)
    if not required:
        return False
    found = succeeded.overlap(required)
    return found == len(required) or (enough is not None and found >= enough)


class FinishedCondition(Struct, frozen=True):
    """FailureTarget or SuccessCriteriaMet, with its reason."""

    type: str
    reason: str
    message: str

    @property
    def is_failure(self) -> bool:
        """True if the job fails."""
        return self.type == FAILURE_TARGET


_TOO_MANY_FAILURES: Final = FinishedCondition(
    FAILURE_TARGET,
    "BackoffLimitExceeded",
    "Job has reached the specified backoff limit",
)
_TOO_LATE: Final = FinishedCondition(
    FAILURE_TARGET,
    "DeadlineExceeded",
    "Job was active longer than specified deadline",
)
_TOO_MANY_FAILED_INDEXES: Final = FinishedCondition(
    FAILURE_TARGET,
    "MaxFailedIndexesExceeded",
    "Job has exceeded the specified maximal number of failed indexes",
)
_FAILED_INDEXES: Final = FinishedCondition(
    FAILURE_TARGET, "FailedIndexes", "Job has failed indexes"
)
COMPLETIONS_REACHED: Final = FinishedCondition(
    SUCCESS_CRITERIA_MET,
    "CompletionsReached",
    "Reached expected number of succeeded pods",
)


def find_finished_condition(view: JobView, now: datetime) -> FinishedCondition | None:
    """Return the reason for which the job ends now, `None` if it goes on.

    A condition that the status has already is final. A job whose completions are
    reached is not found here, because that depends on the pods that are left: see
    `completed`.
    """
    return (
        _standing(view.job)
        or _failed_by_policy(view)
        or _failed_by_limit(view, now)
        or _failed_by_indexes(view)
        or _succeeded_by_policy(view)
    )


def completed(view: JobView, active: int) -> FinishedCondition | None:
    """Return the condition of a job with all its successes and no `active` pod left.

    A job without completions needs one success.
    """
    completions = view.job.spec.completions
    wanted = 1 if completions is None else completions
    return COMPLETIONS_REACHED if view.succeeded >= wanted and not active else None


def seconds_to_deadline(job: Job, now: datetime) -> float | None:
    """Return the seconds until activeDeadlineSeconds are over, 0 or less afterwards.

    `None` if the job has no deadline, has not started, or is suspended. The clock of a
    job that is about to be resumed starts now: managers before 1.35 left the old start
    time in the status.
    """
    limit, start = job.spec.active_deadline_seconds, job.status.start_time
    if limit is None or start is None or is_suspended(job):
        return None
    if true_condition(job.status.conditions, SUSPENDED) is not None:
        return float(limit)
    return (seconds_after(parse_time(start), limit) - now).total_seconds()


def _standing(job: Job) -> FinishedCondition | None:
    for condition_type in (SUCCESS_CRITERIA_MET, FAILURE_TARGET):
        standing = true_condition(job.status.conditions, condition_type)
        if standing is not None:
            return _from_condition(standing)
    return None


def _from_condition(condition: JobCondition) -> FinishedCondition:
    return FinishedCondition(condition.type, condition.reason, condition.message)


def _failed_by_policy(view: JobView) -> FinishedCondition | None:
    job = view.job
    policy = job.spec.pod_failure_policy
    for pod in view.pods if policy is not None else ():
        if not view.fails(pod):
            continue
        matched = match(policy, pod)
        if matched is not None and matched.action == FAIL_JOB:
            return FinishedCondition(
                FAILURE_TARGET, "PodFailurePolicy", matched.message
            )
    return None


def _failed_by_limit(view: JobView, now: datetime) -> FinishedCondition | None:
    job = view.job
    if exceeds_backoff_limit(job, view.pods, view.failed):
        return _TOO_MANY_FAILURES
    left = seconds_to_deadline(job, now)
    return _TOO_LATE if left is not None and left <= 0 else None


def _failed_by_indexes(view: JobView) -> FinishedCondition | None:
    failed = view.failed_indexes
    if not failed:
        return None
    spec = view.job.spec
    if spec.max_failed_indexes is not None and len(failed) > spec.max_failed_indexes:
        return _TOO_MANY_FAILED_INDEXES
    ended = len(failed) + len(view.completed)
    return _FAILED_INDEXES if ended >= index_count(view.job) else None


def _succeeded_by_policy(view: JobView) -> FinishedCondition | None:
    job = view.job
    message = satisfied(job.spec.success_policy, view.completed, index_count(job))
    if message is None:
        return None
    return FinishedCondition(SUCCESS_CRITERIA_MET, "SuccessPolicy", message)
