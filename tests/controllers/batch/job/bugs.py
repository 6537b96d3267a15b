"""Deliberate bugs of the job controller."""

from collections.abc import Mapping
from typing import Any, Final

from controller_manager.api.batch.v1 import JobStatus
from controller_manager.api.core.v1 import Pod
from controller_manager.client.rest.client import Client
from controller_manager.controllers.batch.job import (
    controller,
    orphans,
    pods,
    status,
)
from controller_manager.controllers.batch.job.controller import JobReconciler
from controller_manager.controllers.batch.job.indexes import IndexSet
from controller_manager.controllers.batch.job.orphans import OrphanPods
from controller_manager.controllers.batch.job.pods import (
    NO_CHANGE,
    PodPlan,
    Tally,
    parallelism,
)
from controller_manager.controllers.batch.job.status import FinishedCondition, Mentions
from tests.simulation.planted import Bug

_first_status = status.first_status
_remove_finalizer = orphans.remove_finalizer


def _count_at_once(*arguments: Any, **named: Any) -> tuple[JobStatus, Mentions]:
    """Count pods in the first status, while they still have their finalizers."""
    found, mentions = _first_status(*arguments, **named)
    return status.count_released(found, frozenset()), mentions


def _mention_nothing(*_: Any) -> None:
    """Let pods lose their finalizers before any status has them."""


def _sees_work(
    _: Tally, finished: FinishedCondition | None, plan: PodPlan | None
) -> bool:
    """Tell whether pods must be changed, without a look at the end of the job."""
    return plan not in (None, NO_CHANGE) or finished is not None


def _wanted_without_successes(tally: Tally) -> int:
    return parallelism(tally.job)


def _only_completed(tally: Tally) -> IndexSet:
    return tally.completed


async def _remove_finalizer_of_whatever_is_there(
    client: Client, pod: Pod, *, unless_changed: bool = False
) -> None:
    del unless_changed
    await _remove_finalizer(client, pod)


async def _believe_the_cache(_: OrphanPods, __: Pod) -> bool:
    return True


BUGS: Final[Mapping[str, Bug]] = {
    "count pods before they lose their finalizers": Bug(
        1, controller, "first_status", _count_at_once
    ),
    "remove finalizers before pods are mentioned": Bug(
        1, status, "_mention_one", _mention_nothing
    ),
    "end a job whose last pod is not seen": Bug(
        0, controller, "will_write", _sees_work, "last-pod-is-not-seen-yet"
    ),
    "ask for pods that have succeeded": Bug(
        1, pods, "_wanted_active", _wanted_without_successes
    ),
    "give an index to a second pod": Bug(3, pods, "_taken_indexes", _only_completed),
    "let go of a surplus pod that has succeeded": Bug(
        0,
        controller,
        "remove_finalizer",
        _remove_finalizer_of_whatever_is_there,
        "surplus-pod-succeeds",
    ),
    "count a pod that lost its owner again": Bug(
        0, controller, "is_uncounted", lambda *_: True, "owner-is-removed"
    ),
    "take the finalizer from a pod that is adopted": Bug(
        0, orphans, "_adopts", lambda _: False, "owner-is-removed"
    ),
    "believe that a job is gone which is not seen": Bug(
        0, OrphanPods, "_has_no_job", _believe_the_cache, "job-is-not-seen-yet"
    ),
    "count a pod that is gone again": Bug(
        0, JobReconciler, "_add_released", lambda *_: None, "counted-pod-is-gone"
    ),
}
