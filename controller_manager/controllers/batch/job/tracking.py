"""Counting ended pods, so that none is counted twice or lost.

A pod is counted in three steps, each of which may be the last one before a crash:

1. The status mentions the pod's uid in ``uncountedTerminatedPods``. Of a pod that
   succeeded with an index it has the index in ``completedIndexes``.
2. The pod's finalizer is removed. Until then nobody can delete the pod.
3. The status counts the pod, and does not mention its uid any more.

A uid that is mentioned is counted once its pod has no finalizer, whoever removed it
(trackJobStatusAndRemoveFinalizers, job_controller.go).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.batch.v1 import Job, JobStatus, UncountedTerminatedPods
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting
from controller_manager.api.pods import is_ready
from controller_manager.api.times import format_time
from controller_manager.controllers.batch.job.assessment import (
    NO_PODS,
    Assessment,
    has_valid_index,
)
from controller_manager.controllers.batch.job.conditions import (
    COMPLETE,
    FAILED,
    SUSPENDED,
    condition,
    with_condition,
)
from controller_manager.controllers.batch.job.failure_policy import (
    IGNORE,
    fails_job,
    match,
)
from controller_manager.controllers.batch.job.indexes import (
    completion_index,
)
from controller_manager.controllers.batch.job.spec import (
    is_indexed,
    is_suspended,
)
from controller_manager.controllers.batch.job.target import Target

MOST_UNCOUNTED: Final = 500
"""The most pods that a status mentions; their uids take about 20 kB."""


class Activity(Struct, frozen=True):
    """What a sync did to the pods of a job.

    `decided` tells whether the number of pods was checked; it is not while the cache
    lacks some of this controller's writes. `created` and `deleted` are writes that
    succeeded. `failure` is the first that did not.
    """

    decided: bool = False
    created: int = 0
    deleted: tuple[Pod, ...] = ()
    failure: Exception | None = None


class Tally(Struct, frozen=True):
    """The status before finalizers are removed, and the pods that then lose them."""

    status: JobStatus
    released: tuple[Pod, ...]
    actions: Mapping[str, int]
    """How many failed pods each action of the failure policy was applied to."""

    is_whole: bool
    """Whether all ended pods are mentioned; the others wait for the next sync."""


def active_after(assessment: Assessment, activity: Activity) -> int:
    """Return the number of active pods after the writes of a sync."""
    return len(assessment.active) + activity.created - len(activity.deleted)


def terminating_after(assessment: Assessment, activity: Activity) -> int:
    """Return the number of terminating pods after the writes of a sync."""
    return len(assessment.terminating) + len(activity.deleted)


def tally(
    assessment: Assessment,
    activity: Activity,
    target: Target | None,
    now: datetime,
    *,
    keeps_start: bool = False,
) -> Tally:
    """Return the first status of a sync, which mentions all pods that have ended.

    The status has the condition of the target, too. With `keeps_start`, a job that is
    suspended keeps its start time.
    """
    job = assessment.job
    tracked = {pod.metadata.uid for pod in assessment.tracked}
    status = settle(job.status, tracked)
    mentions = _mention(assessment, status.uncounted_terminated_pods, target)
    ready = sum(1 for pod in assessment.active if is_ready(pod))
    status = replace(
        status,
        active=active_after(assessment, activity),
        ready=ready - sum(1 for pod in activity.deleted if is_ready(pod)),
        terminating=terminating_after(assessment, activity),
        uncounted_terminated_pods=mentions.uncounted,
    )
    if is_indexed(job):
        status = _with_indexes(status, assessment)
    if activity.decided and target is None:
        status = _with_suspension(job, status, now, keeps_start=keeps_start)
    if target is not None:
        standing = condition(target.type, "True", target.reason, target.message, now)
        status = replace(status, conditions=with_condition(status.conditions, standing))
    return Tally(status, tuple(mentions.released), mentions.actions, mentions.is_whole)


def settle(status: JobStatus, tracked: AbstractSet[str]) -> JobStatus:
    """Count the mentioned pods that have no finalizer any more.

    `tracked` are the uids of the pods that have one.
    """
    mentioned = status.uncounted_terminated_pods or NO_PODS
    succeeded = _left(mentioned.succeeded, tracked)
    failed = _left(mentioned.failed, tracked)
    return replace(
        status,
        succeeded=status.succeeded + len(mentioned.succeeded or ()) - len(succeeded),
        failed=status.failed + len(mentioned.failed or ()) - len(failed),
        uncounted_terminated_pods=UncountedTerminatedPods(
            succeeded=succeeded or None, failed=failed or None
        ),
    )


def finish(
    job: Job, status: JobStatus, target: Target | None, now: datetime
) -> JobStatus:
    """Return the status with the final condition, if the job can have that now.

    It cannot while pods are not counted, or still terminate. A job that was suspended
    has no start time, and then the API server refuses the condition until the job is
    resumed. It also refuses a completion before the start, as by a clock that was put
    back.
    """
    uncounted = status.uncounted_terminated_pods or NO_PODS
    if target is None or uncounted.succeeded or uncounted.failed or status.terminating:
        return status
    if status.start_time is None and not _needs_no_start(job):
        return status
    end = FAILED if target.is_failure else COMPLETE
    final = condition(end, "True", target.reason, target.message, now)
    return replace(
        status,
        conditions=with_condition(status.conditions, final),
        completion_time=status.completion_time
        if target.is_failure
        else max(format_time(now), status.start_time or ""),
    )


def started(job: Job, now: datetime) -> Job:
    """Return the job with a start time, unless it is suspended."""
    if job.status.start_time is not None or is_suspended(job):
        return job
    return replace(job, status=replace(job.status, start_time=format_time(now)))


@dataclass(slots=True)
class _Mentions:
    """The pods that a status mentions; it grows pod by pod."""

    succeeded: list[str]
    failed: list[str]
    new_indexes: int = 0
    released: list[Pod] = field(default_factory=list)
    actions: Counter[str] = field(default_factory=Counter)
    is_whole: bool = True

    @property
    def uncounted(self) -> UncountedTerminatedPods:
        return UncountedTerminatedPods(
            succeeded=tuple(self.succeeded) or None, failed=tuple(self.failed) or None
        )

    @property
    def is_full(self) -> bool:
        count = self.new_indexes + len(self.succeeded) + len(self.failed)
        return count >= MOST_UNCOUNTED


def _mention(
    assessment: Assessment,
    uncounted: UncountedTerminatedPods | None,
    target: Target | None,
) -> _Mentions:
    """Mention the pods that have ended, and list the pods to release."""
    known = uncounted or NO_PODS
    mentions = _Mentions(list(known.succeeded or ()), list(known.failed or ()))
    mentioned = frozenset((*mentions.succeeded, *mentions.failed))
    for pod in assessment.tracked:
        if not _may_release(assessment, pod, target):
            continue
        mentions.released.append(pod)
        if pod.metadata.uid not in mentioned:
            _mention_one(mentions, assessment, pod, target)
        if mentions.is_full:
            mentions.is_whole = False
            break
    return mentions


def _mention_one(
    mentions: _Mentions, assessment: Assessment, pod: Pod, target: Target | None
) -> None:
    job = assessment.job
    if pod.status.phase == "Succeeded":
        if not is_indexed(job):
            mentions.succeeded.append(pod.metadata.uid)
        elif _is_new_index(assessment, pod):
            # The index is enough to count the pod once.
            mentions.new_indexes += 1
        return
    # If the job fails, all pods that have not ended are counted as failed.
    fails = assessment.fails(pod) or (target is not None and target.is_failure)
    if not fails or not has_valid_index(pod, job):
        return
    verdict = match(job.spec.pod_failure_policy, pod)
    if verdict is not None:
        mentions.actions[verdict.action] += 1
    if verdict is None or verdict.action != IGNORE:
        mentions.failed.append(pod.metadata.uid)


def _is_new_index(assessment: Assessment, pod: Pod) -> bool:
    valid = has_valid_index(pod, assessment.job)
    return valid and completion_index(pod) not in assessment.completed_before


def _may_release(assessment: Assessment, pod: Pod, target: Target | None) -> bool:
    """Tell whether a pod may lose its finalizer (canRemoveFinalizer)."""
    job = assessment.job
    if is_deleting(job) or target is not None or pod.status.phase == "Succeeded":
        return True
    if not assessment.fails(pod) or fails_job(job.spec.pod_failure_policy, pod):
        # Nothing but the second pod says that the job fails, until the status does.
        return False
    if not assessment.to_replace:
        return True
    waiting = assessment.to_replace.get(_index(pod))
    return waiting is None or waiting.metadata.uid != pod.metadata.uid


def _index(pod: Pod) -> int:
    index = completion_index(pod)
    return -1 if index is None else index


def _with_indexes(status: JobStatus, assessment: Assessment) -> JobStatus:
    failed = assessment.failed_indexes
    return replace(
        status,
        succeeded=len(assessment.completed),
        completed_indexes=assessment.completed.format(),
        failed_indexes=None if failed is None else failed.format(),
    )


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


def _needs_no_start(job: Job) -> bool:
    return is_suspended(job) and job.spec.completions == 0


def _left(uids: Sequence[str] | None, tracked: AbstractSet[str]) -> tuple[str, ...]:
    return tuple(uid for uid in uids or () if uid in tracked)
