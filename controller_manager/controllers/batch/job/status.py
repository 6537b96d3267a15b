"""The status of a job: the reason for which it ends, its conditions, its counts.

`evaluate` finds the reason for which a job ends, FailureTarget or SuccessCriteriaMet
(syncJob). The status gets this condition first. Failed or Complete follows when all
pods have ended and are counted.

Each pod is counted exactly once, in three steps. Each of them may be the last one
before a crash:

1. The status mentions the pod's uid in ``uncountedTerminatedPods``. Of a pod that
   succeeded with an index it has the index in ``completedIndexes``.
2. The pod's finalizer is removed. Until then the API server keeps the pod, also after
   a deletion.
3. The status counts the pod, and does not mention its uid any more.

A mentioned uid is counted once its pod has no finalizer; any client may have removed
it (trackJobStatusAndRemoveFinalizers, job_controller.go).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.batch.v1 import (
    COMPLETE,
    FAILED,
    Job,
    JobCondition,
    JobStatus,
    SuccessPolicy,
    SuccessPolicyRule,
    UncountedTerminatedPods,
    end_condition,
)
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import find_condition, is_deleting, true_condition
from controller_manager.api.pods import is_ready
from controller_manager.api.scalars import format_time, parse_time, seconds_after

from . import failures
from .indexes import IndexSet, completion_index
from .pods import (
    FINALIZER,
    NO_CHANGE,
    PodPlan,
    ReadIndexes,
    Tally,
    has_valid_index,
    index_count,
    is_indexed,
    is_suspended,
    mentioned_in,
    tally_of,
)

FAILURE_TARGET: Final = "FailureTarget"
SUCCESS_CRITERIA_MET: Final = "SuccessCriteriaMet"
SUSPENDED: Final = "Suspended"

MOST_UNCOUNTED: Final = 500
"""The most pods that a status mentions; their uids take about 20 kB."""


def is_finished(job: Job) -> bool:
    """Tell whether the job is complete or has failed; then it does not change."""
    return end_condition(job) is not None


# The reason for which a job ends.


class FinishedCondition(Struct, frozen=True):
    """FailureTarget or SuccessCriteriaMet, with its reason."""

    type: str
    reason: str
    message: str

    @property
    def is_failure(self) -> bool:
        """True if the job fails."""
        return self.type == FAILURE_TARGET

    def as_true(self, now: datetime) -> JobCondition:
        """Return the true condition with this reason."""
        return condition(self.type, "True", self.reason, self.message, now)


def _failure(reason: str, message: str) -> FinishedCondition:
    return FinishedCondition(FAILURE_TARGET, reason, message)


def _success(reason: str, message: str) -> FinishedCondition:
    return FinishedCondition(SUCCESS_CRITERIA_MET, reason, message)


def evaluate(
    job: Job,
    pods: Sequence[Pod],
    now: datetime,
    *,
    released: AbstractSet[str] = frozenset(),
    deleted_surplus: AbstractSet[str] = frozenset(),
    backoff: failures.BackoffRecord | None = None,
    read: ReadIndexes = IndexSet.parse,
) -> tuple[Tally, FinishedCondition | None]:
    """Count the pods of a job that has not finished; return why it ends, if it does.

    The job in the tally has a start time. See `tally_of` for `released`, `backoff` and
    `read`. `deleted_surplus` are the uids of surplus pods that were deleted, though the
    cache may still show them as active: they terminate, and have no finalizer.

    Pods that are being deleted count as failed only if the job does not end without
    them. An interrupted sync may have deleted them because the job ends, before it
    wrote the status.
    """
    job = started(job, now)
    if deleted_surplus:
        time = format_time(now)
        pods = [
            _deleted(pod, time) if pod.metadata.uid in deleted_surplus else pod
            for pod in pods
        ]
    for spare in (True, False) if any(map(is_deleting, pods)) else (False,):
        tally = tally_of(
            job,
            pods,
            released=released,
            backoff=backoff,
            spare_terminating=spare,
            read=read,
        )
        finished = find_finished_condition(tally, now)
        if finished is not None:
            break
    return tally, finished


def started(job: Job, now: datetime) -> Job:
    """Return the job with a start time, unless it is suspended."""
    if job.status.start_time is not None or is_suspended(job):
        return job
    return replace(job, status=replace(job.status, start_time=format_time(now)))


def _deleted(pod: Pod, time: str) -> Pod:
    """Return a surplus pod as the cache will show it after its deletion."""
    metadata = pod.metadata
    return replace(
        pod,
        metadata=replace(
            metadata,
            deletion_timestamp=metadata.deletion_timestamp or time,
            finalizers=tuple(
                each for each in metadata.finalizers or () if each != FINALIZER
            ),
        ),
    )


def find_finished_condition(tally: Tally, now: datetime) -> FinishedCondition | None:
    """Return the reason for which the job ends now, `None` if it goes on."""
    # A condition that the status has already is final. That the completions are reached
    # depends on the pods that are left: see `completed`.
    return (
        _standing(tally.job)
        or _failed_by_policy(tally)
        or _failed_by_limit(tally, now)
        or _failed_by_indexes(tally)
        or _succeeded_by_policy(tally)
    )


def _standing(job: Job) -> FinishedCondition | None:
    for condition_type in (SUCCESS_CRITERIA_MET, FAILURE_TARGET):
        standing = true_condition(job.status.conditions, condition_type)
        if standing is not None:
            return FinishedCondition(standing.type, standing.reason, standing.message)
    return None


def _failed_by_policy(tally: Tally) -> FinishedCondition | None:
    policy = tally.job.spec.pod_failure_policy
    for pod in tally.pods if policy is not None else ():
        if not tally.fails(pod):
            continue
        matched = failures.match(policy, pod)
        if matched is not None and matched.action == failures.FAIL_JOB:
            return _failure("PodFailurePolicy", matched.message)
    return None


def _failed_by_limit(tally: Tally, now: datetime) -> FinishedCondition | None:
    job = tally.job
    if failures.exceeds_backoff_limit(job, tally.pods, tally.failed):
        return _failure(
            "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        )
    left = seconds_to_deadline(job, now)
    if left is None or left > 0:
        return None
    return _failure("DeadlineExceeded", "Job was active longer than specified deadline")


def _failed_by_indexes(tally: Tally) -> FinishedCondition | None:
    failed = tally.failed_indexes
    if not failed:
        return None
    limit = tally.job.spec.max_failed_indexes
    if limit is not None and len(failed) > limit:
        return _failure(
            "MaxFailedIndexesExceeded",
            "Job has exceeded the specified maximal number of failed indexes",
        )
    if len(failed) + len(tally.completed) < index_count(tally.job):
        return None
    return _failure("FailedIndexes", "Job has failed indexes")


def _succeeded_by_policy(tally: Tally) -> FinishedCondition | None:
    job = tally.job
    message = satisfied(job.spec.success_policy, tally.completed, index_count(job))
    return None if message is None else _success("SuccessPolicy", message)


def satisfied(
    policy: SuccessPolicy | None, succeeded: IndexSet, completions: int
) -> str | None:
    """Return the message of the first satisfied rule (matchSuccessPolicy)."""
    # Indexes that are not below `completions` are left out: an elastic job may have
    # been made smaller.
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


def seconds_to_deadline(job: Job, now: datetime) -> float | None:
    """Return the seconds until activeDeadlineSeconds are over; `None` for never."""
    # The clock of a job that is about to be resumed starts now: managers before 1.35
    # left the old start time in the status.
    limit, start = job.spec.active_deadline_seconds, job.status.start_time
    if limit is None or start is None or is_suspended(job):
        return None
    if true_condition(job.status.conditions, SUSPENDED) is not None:
        return float(limit)
    return (seconds_after(parse_time(start), limit) - now).total_seconds()


def completed(tally: Tally, active: int) -> FinishedCondition | None:
    """Return the condition of a job with its successes, or one, and no active pod."""
    completions = tally.job.spec.completions
    wanted = 1 if completions is None else completions
    if active or tally.succeeded < wanted:
        return None
    return _success("CompletionsReached", "Reached expected number of succeeded pods")


def will_write(
    tally: Tally, finished: FinishedCondition | None, plan: PodPlan | None
) -> bool:
    """Tell whether a sync will change or count pods, or end the job."""
    # A job may seem complete because the cache lacks its last pods.
    return (
        plan not in (None, NO_CHANGE)
        or finished is not None
        or tally.has_ended_pods
        or completed(tally, len(tally.active)) is not None
    )


# The status that mentions the pods, and the one that counts them.


class PodWrites(Struct, frozen=True):
    """The writes of a sync to the pods of a job.

    `decided` is true if the number of pods was checked; it is not checked while the
    cache lacks some of this controller's writes. `created` and `deleted` are writes
    that succeeded. `failure` is the first error.
    """

    decided: bool = False
    created: int = 0
    deleted: tuple[Pod, ...] = ()
    failure: Exception | None = None


def active_after(tally: Tally, writes: PodWrites) -> int:
    """Return the number of active pods after the writes of a sync."""
    return len(tally.active) + writes.created - len(writes.deleted)


@dataclass(slots=True)
class Mentions:
    """The pods that a status mentions; it grows pod by pod."""

    succeeded: list[str]
    failed: list[str]
    new_indexes: int = 0
    released: list[Pod] = field(default_factory=list)
    """The pods that lose their finalizer once the status is written."""

    actions: Counter[str] = field(default_factory=Counter)
    """The number of failed pods for each action of the failure policy."""

    is_whole: bool = True
    """True if all ended pods are mentioned; the others wait for the next sync."""

    @property
    def is_full(self) -> bool:
        """True if the status can mention no further pod."""
        count = self.new_indexes + len(self.succeeded) + len(self.failed)
        return count >= MOST_UNCOUNTED


def first_status(
    tally: Tally,
    writes: PodWrites,
    finished: FinishedCondition | None,
    now: datetime,
    *,
    keeps_start: bool = False,
) -> tuple[JobStatus, Mentions]:
    """Return the status that mentions all ended pods and has `finished`.

    With `keeps_start`, a job that is suspended keeps its start time.
    """
    job = tally.job
    tracked = {pod.metadata.uid for pod in tally.tracked}
    status = count_released(job.status, tracked)
    mentions = _mention(tally, status, finished)
    ready = sum(map(is_ready, tally.active)) - sum(map(is_ready, writes.deleted))
    status = replace(
        status,
        active=active_after(tally, writes),
        ready=ready,
        terminating=len(tally.terminating) + len(writes.deleted),
        uncounted_terminated_pods=_uncounted(mentions.succeeded, mentions.failed),
    )
    if is_indexed(job):
        failed = tally.failed_indexes
        status = replace(
            status,
            succeeded=len(tally.completed),
            completed_indexes=tally.completed.format(),
            failed_indexes=None if failed is None else failed.format(),
        )
    if finished is not None:
        conditions = with_condition(status.conditions, finished.as_true(now))
        status = replace(status, conditions=conditions)
    elif writes.decided:
        status = _with_suspension(job, status, now, keeps_start=keeps_start)
    return status, mentions


def _mention(
    tally: Tally, status: JobStatus, finished: FinishedCondition | None
) -> Mentions:
    succeeded, failed = mentioned_in(status)
    mentions = Mentions(list(succeeded), list(failed))
    mentioned = frozenset((*succeeded, *failed))
    for pod in tally.tracked:
        if not _may_release(tally, pod, finished):
            continue
        mentions.released.append(pod)
        if pod.metadata.uid not in mentioned:
            _mention_one(mentions, tally, pod, finished)
        if mentions.is_full:
            mentions.is_whole = False
            break
    return mentions


def _mention_one(
    mentions: Mentions, tally: Tally, pod: Pod, finished: FinishedCondition | None
) -> None:
    job = tally.job
    valid = has_valid_index(pod, job)
    if pod.status.phase == "Succeeded":
        if not is_indexed(job):
            mentions.succeeded.append(pod.metadata.uid)
        elif valid and completion_index(pod) not in tally.completed_before:
            # The index is enough to count the pod once.
            mentions.new_indexes += 1
        return
    # If the job fails, all pods that have not ended are counted as failed.
    fails = tally.fails(pod) or (finished is not None and finished.is_failure)
    if not fails or not valid:
        return
    matched = failures.match(job.spec.pod_failure_policy, pod)
    if matched is not None:
        mentions.actions[matched.action] += 1
    if matched is None or matched.action != failures.IGNORE:
        mentions.failed.append(pod.metadata.uid)


def _may_release(tally: Tally, pod: Pod, finished: FinishedCondition | None) -> bool:
    """Tell whether a pod may lose its finalizer (canRemoveFinalizer)."""
    job = tally.job
    if is_deleting(job) or finished is not None or pod.status.phase == "Succeeded":
        return True
    if not tally.fails(pod) or failures.fails_job(job.spec.pod_failure_policy, pod):
        # Until the status has the condition, only this pod shows that the job fails.
        return False
    index = completion_index(pod) if tally.to_replace else None
    waiting = None if index is None else tally.to_replace.get(index)
    return waiting is None or waiting.metadata.uid != pod.metadata.uid


def count_released(status: JobStatus, tracked: AbstractSet[str]) -> JobStatus:
    """Count the mentioned pods whose uids are not `tracked` any more."""
    before, failed_before = mentioned_in(status)
    succeeded = [uid for uid in before if uid in tracked]
    failed = [uid for uid in failed_before if uid in tracked]
    return replace(
        status,
        succeeded=status.succeeded + len(before) - len(succeeded),
        failed=status.failed + len(failed_before) - len(failed),
        uncounted_terminated_pods=_uncounted(succeeded, failed),
    )


def _uncounted(
    succeeded: Iterable[str], failed: Iterable[str]
) -> UncountedTerminatedPods:
    return UncountedTerminatedPods(tuple(succeeded) or None, tuple(failed) or None)


def with_final_condition(
    job: Job, status: JobStatus, finished: FinishedCondition | None, now: datetime
) -> JobStatus:
    """Return the status with the final condition, if the job can have that now."""
    # Not while pods are not counted, or still terminate. A suspended job has no start
    # time, and then the API server refuses the condition until the job is resumed,
    # unless it wants no completions. It also refuses a completion before the start,
    # which a clock that was set back would cause.
    if finished is None or any(mentioned_in(status)) or status.terminating:
        return status
    needs_start = not is_suspended(job) or job.spec.completions != 0
    if status.start_time is None and needs_start:
        return status
    end = FAILED if finished.is_failure else COMPLETE
    final = replace(finished, type=end).as_true(now)
    status = replace(status, conditions=with_condition(status.conditions, final))
    if finished.is_failure:
        return status
    completion_time = max(format_time(now), status.start_time or "")
    return replace(status, completion_time=completion_time)


# Conditions.


def condition(
    condition_type: str, status: str, reason: str, message: str, now: datetime
) -> JobCondition:
    """Return a new condition."""
    time = format_time(now)
    return JobCondition(
        type=condition_type,
        status=status,
        last_probe_time=time,
        last_transition_time=time,
        reason=reason,
        message=message,
    )


def with_condition(
    conditions: tuple[JobCondition, ...] | None, new: JobCondition
) -> tuple[JobCondition, ...] | None:
    """Return the conditions with a new one (ensureJobConditionStatus)."""
    # A present condition with the same status, reason and message is kept, with its
    # times. A false condition is not added: its absence means the same.
    present = find_condition(conditions, new.type)
    if present is None:
        return conditions if new.status == "False" else (*(conditions or ()), new)
    told = (new.status, new.reason, new.message)
    if (present.status, present.reason, present.message) == told:
        return conditions
    return tuple(new if each is present else each for each in conditions or ())


def _with_suspension(
    job: Job, status: JobStatus, now: datetime, *, keeps_start: bool
) -> JobStatus:
    """Set the condition Suspended; its change stops or restarts the job's clock."""
    if is_suspended(job):
        new = condition(SUSPENDED, "True", "JobSuspended", "Job suspended", now)
        start = status.start_time if keeps_start else None
    else:
        new = condition(SUSPENDED, "False", "JobResumed", "Job resumed", now)
        start = format_time(now)
    conditions = with_condition(status.conditions, new)
    if conditions is status.conditions:
        return status
    return replace(status, conditions=conditions, start_time=start)
