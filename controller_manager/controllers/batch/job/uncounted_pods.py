"""Counts ended pods, so that each is counted exactly once.

A pod is counted in three steps, each of which may be the last one before a crash:

1. The status mentions the pod's uid in ``uncountedTerminatedPods``. Of a pod that
   succeeded with an index it has the index in ``completedIndexes``.
2. The pod's finalizer is removed. Until then the API server keeps the pod, also after a
deletion. 3. The status counts the pod, and does not mention its uid any more.

A mentioned uid is counted once its pod has no finalizer; any client may have removed
it (trackJobStatusAndRemoveFinalizers, job_controller.go).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
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
    JobStatus,
    UncountedTerminatedPods,
)
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting
from controller_manager.api.pods import is_ready
from controller_manager.api.times import format_time

from .completion_indexes import completion_index
from .conditions import SUSPENDED, condition, with_condition
from .finished_condition import FinishedCondition
from .pod_failure_policy import IGNORE, fails_job, match
from .spec import is_indexed, is_suspended
from .view import NO_PODS, JobView, has_valid_index

MOST_UNCOUNTED: Final = 500
"""The most pods that a status mentions; their uids take about 20 kB."""


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


class FirstStatus(Struct, frozen=True):
    """The status before finalizers are removed, and the pods that then lose them."""

    status: JobStatus
    released: tuple[Pod, ...]
    actions: Mapping[str, int]
    """The number of failed pods for each action of the failure policy."""

    is_whole: bool
    """True if all ended pods are mentioned; the others wait for the next sync."""


def active_after(view: JobView, writes: PodWrites) -> int:
    """Return the number of active pods after the writes of a sync."""
    return len(view.active) + writes.created - len(writes.deleted)


def terminating_after(view: JobView, writes: PodWrites) -> int:
    """Return the number of terminating pods after the writes of a sync."""
    return len(view.terminating) + len(writes.deleted)


def first_status(
    view: JobView,
    writes: PodWrites,
    finished: FinishedCondition | None,
    now: datetime,
    *,
    keeps_start: bool = False,
) -> FirstStatus:
    """Return the first status of a sync, which mentions all pods that have ended.

    The status gets the condition `finished`, too. With `keeps_start`, a job that is
    suspended keeps its start time.
    """
    job = view.job
    tracked = {pod.metadata.uid for pod in view.tracked}
    status = count_released(job.status, tracked)
    mentions = _mention(view, status.uncounted_terminated_pods, finished)
    ready = sum(1 for pod in view.active if is_ready(pod))
    status = replace(
        status,
        active=active_after(view, writes),
        ready=ready - sum(1 for pod in writes.deleted if is_ready(pod)),
        terminating=terminating_after(view, writes),
        uncounted_terminated_pods=mentions.uncounted,
    )
    if is_indexed(job):
        status = _with_indexes(status, view)
    if writes.decided and finished is None:
        status = _with_suspension(job, status, now, keeps_start=keeps_start)
    if finished is not None:
        standing = condition(
            finished.type, "True", finished.reason, finished.message, now
        )
        status = replace(status, conditions=with_condition(status.conditions, standing))
    return FirstStatus(
        status, tuple(mentions.released), mentions.actions, mentions.is_whole
    )


def count_released(status: JobStatus, tracked: AbstractSet[str]) -> JobStatus:
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


def with_final_condition(
    job: Job, status: JobStatus, finished: FinishedCondition | None, now: datetime
) -> JobStatus:
    """Return the status with the final condition, if the job can have that now.

    The job cannot have it while pods are not counted, or still terminate. A suspended
    job has no start time, and then the API server refuses the condition until the job
    is resumed. The API server also refuses a completion before the start, which a clock
    that was set back would cause.
    """
    uncounted = status.uncounted_terminated_pods or NO_PODS
    if (
        finished is None
        or uncounted.succeeded
        or uncounted.failed
        or status.terminating
    ):
        return status
    if status.start_time is None and not _needs_no_start(job):
        return status
    end = FAILED if finished.is_failure else COMPLETE
    final = condition(end, "True", finished.reason, finished.message, now)
    return replace(
        status,
        conditions=with_condition(status.conditions, final),
        completion_time=status.completion_time
        if finished.is_failure
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
    view: JobView,
    uncounted: UncountedTerminatedPods | None,
    finished: FinishedCondition | None,
) -> _Mentions:
    """Mention the pods that have ended, and list the pods to release."""
    known = uncounted or NO_PODS
    mentions = _Mentions(list(known.succeeded or ()), list(known.failed or ()))
    mentioned = frozenset((*mentions.succeeded, *mentions.failed))
    for pod in view.tracked:
        if not _may_release(view, pod, finished):
            continue
        mentions.released.append(pod)
        if pod.metadata.uid not in mentioned:
            _mention_one(mentions, view, pod, finished)
        if mentions.is_full:
            mentions.is_whole = False
            break
    return mentions


def _mention_one(
    mentions: _Mentions, view: JobView, pod: Pod, finished: FinishedCondition | None
) -> None:
    job = view.job
    if pod.status.phase == "Succeeded":
        if not is_indexed(job):
            mentions.succeeded.append(pod.metadata.uid)
        elif _is_new_index(view, pod):
            # The index is enough to count the pod once.
            mentions.new_indexes += 1
        return
    # If the job fails, all pods that have not ended are counted as failed.
    fails = view.fails(pod) or (finished is not None and finished.is_failure)
    if not fails or not has_valid_index(pod, job):
        return
    matched = match(job.spec.pod_failure_policy, pod)
    if matched is not None:
        mentions.actions[matched.action] += 1
    if matched is None or matched.action != IGNORE:
        mentions.failed.append(pod.metadata.uid)


def _is_new_index(view: JobView, pod: Pod) -> bool:
    valid = has_valid_index(pod, view.job)
    return valid and completion_index(pod) not in view.completed_before


def _may_release(view: JobView, pod: Pod, finished: FinishedCondition | None) -> bool:
    """Tell whether a pod may lose its finalizer (canRemoveFinalizer)."""
    job = view.job
    if is_deleting(job) or finished is not None or pod.status.phase == "Succeeded":
        return True
    if not view.fails(pod) or fails_job(job.spec.pod_failure_policy, pod):
        # Until the status has the condition, only this pod shows that the job fails.
        return False
    if not view.to_replace:
        return True
    waiting = view.to_replace.get(_index(pod))
    return waiting is None or waiting.metadata.uid != pod.metadata.uid


def _index(pod: Pod) -> int:
    index = completion_index(pod)
    return -1 if index is None else index


def _with_indexes(status: JobStatus, view: JobView) -> JobStatus:
    failed = view.failed_indexes
    return replace(
        status,
        succeeded=len(view.completed),
        completed_indexes=view.completed.format(),
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
