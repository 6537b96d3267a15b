"""The decision of a job's sync, as a pure function of the job and its pods."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.batch.v1 import Job
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting
from controller_manager.api.times import format_time
from controller_manager.controllers.batch.job.assessment import (
    FINALIZER,
    Assessment,
    ReadIndexes,
    assess,
)
from controller_manager.controllers.batch.job.back_off import BackOff
from controller_manager.controllers.batch.job.indexes import IndexSet
from controller_manager.controllers.batch.job.plan import Plan, plan_pods
from controller_manager.controllers.batch.job.target import (
    Target,
    completed,
    find_target,
)
from controller_manager.controllers.batch.job.tracking import started


class JobDecision(Struct, frozen=True):
    """What to do in a sync: end the job, or bring the number of its pods to the plan.

    Either way, the pods that have ended are counted afterwards.
    """

    assessment: Assessment
    target: Target | None
    plan: Plan = None
    is_decided: bool = False
    """Whether the number of pods may be changed, and so the plan was made."""

    sees_all_pods: bool = False
    """Whether the cache shows all writes, so that no pod runs that it lacks."""

    @property
    def writes(self) -> bool:
        """Whether the sync will change or count pods, or end the job.

        A job may seem complete because the cache lacks its last pods.
        """
        assessment = self.assessment
        return (
            self.plan is not None
            or self.target is not None
            or assessment.has_ended_pods
            or completed(assessment, len(assessment.active)) is not None
        )


def decide(
    job: Job,
    pods: Sequence[Pod],
    now: datetime,
    *,
    released: AbstractSet[str] = frozenset(),
    condemned: AbstractSet[str] = frozenset(),
    back_off: BackOff | None = None,
    may_change: bool = True,
    read: ReadIndexes = IndexSet.parse,
) -> JobDecision:
    """Return the decision for a job that has not finished and has these pods.

    `may_change` is false while the cache does not show all writes: then the number of
    pods stays as it is. See `assess` for `released`, `back_off` and `read`. `condemned`
    are the uids of surplus pods that were deleted, though the cache may still show them
    as active: they terminate, and have no finalizer.

    Pods that are being deleted count as failed only if the job does not end without
    them. They may have been deleted because it ends, by a sync that was interrupted
    before it could write that down.
    """
    job = started(job, now)
    if condemned:
        time = format_time(now)
        pods = [
            _deleted(pod, time) if pod.metadata.uid in condemned else pod
            for pod in pods
        ]
    for spare in (True, False) if any(map(is_deleting, pods)) else (False,):
        assessment = assess(
            job,
            pods,
            released=released,
            back_off=back_off,
            spare_terminating=spare,
            read=read,
        )
        target = find_target(assessment, now)
        if target is not None:
            return JobDecision(assessment, target)
    if not may_change or is_deleting(job):
        return JobDecision(assessment, None, sees_all_pods=may_change)
    plan = plan_pods(assessment, now)
    return JobDecision(assessment, None, plan, is_decided=True, sees_all_pods=True)


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
