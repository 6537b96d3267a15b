"""Which pods a job needs: how many to create or to delete (manageJob)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.batch.job.assessment import Assessment
from controller_manager.controllers.batch.job.back_off import may_start
from controller_manager.controllers.batch.job.indexes import (
    IndexSet,
    first_pending,
    indexes_of,
)
from controller_manager.controllers.batch.job.ranking import (
    in_order_of_removal,
    misplaced,
)
from controller_manager.controllers.batch.job.spec import (
    has_limit_per_index,
    index_count,
    is_indexed,
    is_suspended,
    parallelism,
    replaces_only_failed,
)

MOST_PODS: Final = 500
"""The most pods that one sync creates or deletes."""


class Create(Struct, frozen=True):
    """Create pods: one for each of the `indexes`, or `count` without indexes."""

    count: int
    indexes: tuple[int, ...] = ()
    replaced: Mapping[int, Pod] = {}
    """The failed pods whose counts the new ones take over, by index."""


class Delete(Struct, frozen=True):
    """Delete these pods, which do not count as failed."""

    pods: tuple[Pod, ...]


class Wait(Struct, frozen=True):
    """Create pods only when the back-off is over, in so many seconds."""

    seconds: float


Plan = Create | Delete | Wait | None
"""`None` means that there are as many pods as needed."""


def plan_pods(assessment: Assessment, now: datetime) -> Plan:
    """Return what to do about the number of pods of a job that goes on.

    A sync either creates or deletes. Deletions come first.
    """
    active = len(assessment.active)
    if is_suspended(assessment.job):
        surplus = _to_delete(assessment, active)
        return Delete(tuple(surplus)) if surplus else None
    wanted = _wanted(assessment)
    surplus = _to_delete(assessment, max(active - wanted, 0))
    if surplus:
        return Delete(tuple(surplus[:MOST_PODS]))
    missing = wanted - active
    if replaces_only_failed(assessment.job):
        missing -= len(assessment.terminating)
    return _creation(assessment, missing, now) if missing > 0 else None


def _wanted(assessment: Assessment) -> int:
    """Return how many pods shall be active."""
    job = assessment.job
    completions = job.spec.completions
    if completions is None:
        # After the first success no pod is added, and those that run go on.
        return len(assessment.active) if assessment.succeeded else parallelism(job)
    return max(0, min(completions - assessment.succeeded, parallelism(job)))


def _to_delete(assessment: Assessment, at_least: int) -> list[Pod]:
    surplus: list[Pod] = []
    left = list(assessment.active)
    if is_indexed(assessment.job):
        surplus, left = misplaced(left, index_count(assessment.job))
    more = at_least - len(surplus)
    return [*surplus, *in_order_of_removal(left)[:more]] if more > 0 else surplus


def _creation(assessment: Assessment, missing: int, now: datetime) -> Plan:
    job = assessment.job
    if not has_limit_per_index(job):
        wait = assessment.back_off.remaining(now)
        if wait > 0:
            return Wait(wait)
    count = min(missing, MOST_PODS)
    if not is_indexed(job):
        return Create(count)
    indexes = first_pending(_taken_indexes(assessment), count, index_count(job))
    if has_limit_per_index(job):
        # Only the lowest indexes are considered, as upstream: one that must wait
        # holds back those after it.
        indexes, wait = may_start(indexes, assessment.to_replace, now)
        if wait > 0:
            return Wait(wait)
    if not indexes:
        return None
    return Create(len(indexes), tuple(indexes), assessment.to_replace)


def _taken_indexes(assessment: Assessment) -> IndexSet:
    """Return the indexes that need no new pod."""
    taken = assessment.completed.union(indexes_of(assessment.active))
    if replaces_only_failed(assessment.job):
        taken = taken.union(indexes_of(assessment.terminating))
    if assessment.failed_indexes is not None:
        taken = taken.union(assessment.failed_indexes)
    return taken
