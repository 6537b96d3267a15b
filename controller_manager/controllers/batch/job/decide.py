"""The decision of a job's sync, as a pure function of the job and its pods.

The job ends, or pods are created or deleted (manageJob, job_controller.go).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.batch.v1 import Job
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting
from controller_manager.api.pods import is_ready, ready_condition
from controller_manager.api.times import format_time, parse_time
from controller_manager.control.replicas.ranking import most_restarts

from .actions import Create, Delete, Plan, Wait
from .backoff import BackoffRecord, may_start
from .completion_indexes import IndexSet, completion_index, first_pending, indexes_of
from .finished_condition import FinishedCondition, completed, find_finished_condition
from .spec import (
    has_limit_per_index,
    index_count,
    is_indexed,
    is_suspended,
    parallelism,
    replaces_only_failed,
)
from .uncounted_pods import started
from .view import FINALIZER, JobView, ReadIndexes, view_of


class JobDecision(Struct, frozen=True):
    """The decision of a sync: end the job, or create or delete pods.

    Either way, the pods that have ended are counted afterwards.
    """

    view: JobView
    finished: FinishedCondition | None
    plan: Plan = None
    is_decided: bool = False
    """True if the number of pods may be changed: then the plan was made."""

    sees_all_pods: bool = False
    """True if the cache shows all writes: then it has all running pods."""

    @property
    def writes(self) -> bool:
        """True if the sync will change or count pods, or end the job.

        A job may seem complete because the cache lacks its last pods.
        """
        view = self.view
        return (
            self.plan is not None
            or self.finished is not None
            or view.has_ended_pods
            or completed(view, len(view.active)) is not None
        )


def decide(
    job: Job,
    pods: Sequence[Pod],
    now: datetime,
    *,
    released: AbstractSet[str] = frozenset(),
    deleted_surplus: AbstractSet[str] = frozenset(),
    backoff: BackoffRecord | None = None,
    may_change: bool = True,
    read: ReadIndexes = IndexSet.parse,
) -> JobDecision:
    """Return the decision for a job that has not finished and has these pods.

    `may_change` is false while the cache does not show all writes: then the number of
    pods stays as it is. See `view_of` for `released`, `backoff` and `read`.
    `deleted_surplus` are the uids of surplus pods that were deleted, though the cache
    may still show them as active: they terminate, and have no finalizer.

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
        view = view_of(
            job,
            pods,
            released=released,
            backoff=backoff,
            spare_terminating=spare,
            read=read,
        )
        finished = find_finished_condition(view, now)
        if finished is not None:
            return JobDecision(view, finished)
    if not may_change or is_deleting(job):
        return JobDecision(view, None, sees_all_pods=may_change)
    plan = plan_pods(view, now)
    return JobDecision(view, None, plan, is_decided=True, sees_all_pods=True)


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


MOST_PODS: Final = 500
"""The most pods that one sync creates or deletes."""


def plan_pods(view: JobView, now: datetime) -> Plan:
    """Return the action on the number of pods of a job that goes on (manageJob).

    A sync either creates or deletes. Deletions come first.
    """
    active = len(view.active)
    if is_suspended(view.job):
        surplus = _to_delete(view, active)
        return Delete(tuple(surplus)) if surplus else None
    wanted = _wanted_active(view)
    surplus = _to_delete(view, max(active - wanted, 0))
    if surplus:
        return Delete(tuple(surplus[:MOST_PODS]))
    missing = wanted - active
    if replaces_only_failed(view.job):
        missing -= len(view.terminating)
    return _creation(view, missing, now) if missing > 0 else None


def _wanted_active(view: JobView) -> int:
    """Return the wanted number of active pods."""
    job = view.job
    completions = job.spec.completions
    if completions is None:
        # After the first success no pod is added; active pods go on.
        return len(view.active) if view.succeeded else parallelism(job)
    return max(0, min(completions - view.succeeded, parallelism(job)))


def _to_delete(view: JobView, at_least: int) -> list[Pod]:
    surplus: list[Pod] = []
    left = list(view.active)
    if is_indexed(view.job):
        surplus, left = split_surplus(left, index_count(view.job))
    more = at_least - len(surplus)
    return [*surplus, *in_deletion_order(left)[:more]] if more > 0 else surplus


def _creation(view: JobView, missing: int, now: datetime) -> Plan:
    job = view.job
    if not has_limit_per_index(job):
        wait = view.backoff.remaining(now)
        if wait > 0:
            return Wait(wait)
    count = min(missing, MOST_PODS)
    if not is_indexed(job):
        return Create(count)
    indexes = first_pending(_taken_indexes(view), count, index_count(job))
    if has_limit_per_index(job):
        # Only the lowest indexes are considered, as upstream: an index that must
        # wait holds back the indexes after it.
        indexes, wait = may_start(indexes, view.to_replace, now)
        if wait > 0:
            return Wait(wait)
    if not indexes:
        return None
    return Create(len(indexes), tuple(indexes), view.to_replace)


def _taken_indexes(view: JobView) -> IndexSet:
    """Return the indexes that need no new pod."""
    taken = view.completed.union(indexes_of(view.active))
    if replaces_only_failed(view.job):
        taken = taken.union(indexes_of(view.terminating))
    if view.failed_indexes is not None:
        taken = taken.union(view.failed_indexes)
    return taken


_PHASES: Final[Mapping[str, int]] = {"Pending": 0, "Unknown": 1, "Running": 2}


def in_deletion_order(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods in the order of deletion (ActivePods, controller_utils.go).

    Pods that are not assigned, pending or not ready come first, then pods that have
    been ready for the shortest time, have restarted most, or are youngest.
    """
    return sorted(pods, key=_rank)


def split_surplus(pods: Iterable[Pod], count: int) -> tuple[list[Pod], list[Pod]]:
    """Return the surplus pods of an indexed job, and the pods that may stay.

    Surplus are pods without an index below `count`, and all but one of the pods with
    the same index.
    """
    surplus: list[Pod] = []
    by_index: dict[int, list[Pod]] = {}
    for pod in pods:
        index = completion_index(pod)
        if index is None or index >= count:
            surplus.append(pod)
        else:
            by_index.setdefault(index, []).append(pod)
    left = []
    for same in by_index.values():
        *others, kept = in_deletion_order(same)
        surplus += others
        left.append(kept)
    return surplus, left


def _rank(pod: Pod) -> tuple[object, ...]:
    ready = is_ready(pod)
    restarts, sidecar_restarts = most_restarts(pod)
    condition = ready_condition(pod) if ready else None
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        ready,
        _latest_first(condition.last_transition_time if condition else None),
        -restarts,
        -sidecar_restarts,
        _latest_first(pod.metadata.creation_timestamp),
    )


def _latest_first(time: str | None) -> float:
    return -parse_time(time).timestamp() if time else -math.inf
