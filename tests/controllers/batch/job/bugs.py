"""Deliberate bugs of the job controller."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from controller_manager.api.core.v1 import Pod
from controller_manager.client.client import Client
from controller_manager.controllers.batch.job import (
    apply,
    decide,
    orphans,
    reconciler,
    uncounted_pods,
)
from controller_manager.controllers.batch.job.completion_indexes import IndexSet
from controller_manager.controllers.batch.job.decide import JobDecision
from controller_manager.controllers.batch.job.orphans import OrphanPods
from controller_manager.controllers.batch.job.spec import parallelism
from controller_manager.controllers.batch.job.tracker import JobTracker
from controller_manager.controllers.batch.job.uncounted_pods import FirstStatus
from controller_manager.controllers.batch.job.view import JobView
from tests.simulation.planted import Bug

_first_status = uncounted_pods.first_status
_remove_finalizer = apply.remove_finalizer


def _count_at_once(*arguments: Any, **named: Any) -> FirstStatus:
    """Count pods in the first status, while they still have their finalizers."""
    found = _first_status(*arguments, **named)
    return replace(
        found, status=uncounted_pods.count_released(found.status, frozenset())
    )


def _mention_nothing(*_: Any) -> None:
    """Let pods lose their finalizers before any status has them."""


def _sees_work(decision: JobDecision) -> bool:
    """Tell whether pods must be changed, without a look at the end of the job."""
    return decision.plan is not None or decision.finished is not None


def _wanted_without_successes(view: JobView) -> int:
    return parallelism(view.job)


def _only_completed(view: JobView) -> IndexSet:
    return view.completed


async def _remove_finalizer_of_whatever_is_there(
    client: Client, pod: Pod, *, unless_changed: bool = False
) -> None:
    del unless_changed
    await _remove_finalizer(client, pod)


async def _believe_the_cache(_: OrphanPods, __: Pod) -> bool:
    return True


BUGS: Final[Mapping[str, Bug]] = {
    "count pods before they lose their finalizers": Bug(
        1, reconciler, "first_status", _count_at_once
    ),
    "remove finalizers before pods are mentioned": Bug(
        1, uncounted_pods, "_mention_one", _mention_nothing
    ),
    "end a job whose last pod is not seen": Bug(
        0, JobDecision, "writes", property(_sees_work), "last-pod-is-not-seen-yet"
    ),
    "ask for pods that have succeeded": Bug(
        1, decide, "_wanted_active", _wanted_without_successes
    ),
    "give an index to a second pod": Bug(3, decide, "_taken_indexes", _only_completed),
    "let go of a surplus pod that has succeeded": Bug(
        0,
        apply,
        "remove_finalizer",
        _remove_finalizer_of_whatever_is_there,
        "surplus-pod-succeeds",
    ),
    "count a pod that lost its owner again": Bug(
        0, reconciler, "is_uncounted", lambda *_: True, "owner-is-removed"
    ),
    "take the finalizer from a pod that is adopted": Bug(
        0, orphans, "_adopts", lambda _: False, "owner-is-removed"
    ),
    "believe that a job is gone which is not seen": Bug(
        0, OrphanPods, "_has_no_job", _believe_the_cache, "job-is-not-seen-yet"
    ),
    "count a pod that is gone again": Bug(
        0, JobTracker, "add_released", lambda *_: None, "counted-pod-is-gone"
    ),
}
