"""Explains owners that want a number of pods: missing pods, and pods not available."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from controller_manager.api.apps.v1 import ReplicaSet, desired_replicas
from controller_manager.api.core.v1 import Pod, ReplicationController
from controller_manager.api.pods import is_active, is_available
from controller_manager.api.selectors import LabelSelector

from .cause import Cause, State, merged
from .creation import explain_missing
from .evictions import explain_evictions
from .inaction import explain_inaction
from .items import Item, text_at
from .pods import explain_ending, explain_failed, explain_pod
from .selecting import has_all_pods, pods_of
from .view import View

_FIELD: Final = "status.replicas"
_MANY: Final = 3
_RECENT: Final = timedelta(minutes=10)
"""The number and the age of failed pods from which on the next one fails, too."""

_EXAMPLES: Final = 20
"""The most pods of an owner that are explained."""


async def explain_replica_set(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the causes for which a replica set lacks available pods."""
    typed = item.typed(ReplicaSet)
    selector = typed.spec.selector
    return await _explain(view, item, typed, selector, typed.spec.min_ready_seconds)


async def explain_replication_controller(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the causes for which a replication controller lacks available pods."""
    typed = item.typed(ReplicationController)
    selector = LabelSelector(match_labels=typed.spec.selector)
    return await _explain(view, item, typed, selector, typed.spec.min_ready_seconds)


async def _explain(
    view: View,
    item: Item,
    typed: ReplicaSet | ReplicationController,
    selector: LabelSelector | None,
    min_ready_seconds: int,
) -> tuple[Cause, ...]:
    if inaction := await explain_inaction(view, item):
        return (inaction,)
    evicted = await explain_evictions(view, item)
    pods = await pods_of(view, item, selector)
    active = [each for each in pods if is_active(each.typed(Pod))]
    wanted, exist = desired_replicas(typed), typed.status.replicas
    if has_all_pods(view, item, selector):
        exist = len(active)
    first: tuple[Cause, ...] = ()
    if exist < wanted:
        first = (await _missing(view, item, wanted - exist),)
    elif exist > wanted:
        first = (_surplus(item, exist - wanted),)
    found = (*first, *await explain_pods(view, active, min_ready_seconds))
    if found:
        found = (*found, *_failing(view, pods))
    if evicted:
        # The next pod, or one that starts or ends, is a part of the circle.
        found = tuple(each for each in found if each.state is State.STUCK)
    return (*evicted, *found, *await stuck_endings(view, pods))


async def _missing(view: View, owner: Item, count: int) -> Cause:
    what = f"{count} pods do not exist yet" if count > 1 else "a pod does not exist yet"
    return await explain_missing(view, owner, count, what, _FIELD)


async def explain_pods(
    view: View, pods: Sequence[Item], min_ready_seconds: int
) -> tuple[Cause, ...]:
    """Return the causes for which pods are not available, like ones merged."""
    found: list[Cause] = []
    for each in _unavailable(view, pods, min_ready_seconds)[:_EXAMPLES]:
        found += await explain_pod(view, each, min_ready_seconds)
    return merged(found)


def _unavailable(
    view: View, pods: Sequence[Item], min_ready_seconds: int
) -> Sequence[Item]:
    return [
        each
        for each in sorted(pods, key=lambda each: each.name)
        if not is_available(each.typed(Pod), min_ready_seconds, view.now)
    ]


def _failing(view: View, pods: Sequence[Item]) -> tuple[Cause, ...]:
    """Return the causes for which pods fail again and again.

    A kubelet lets a pod fail that it has no place for. The owner makes the next one at
    once, and leaves those that have failed.
    """
    failed = [
        each
        for each in pods
        if text_at(each.status, "phase") == "Failed"
        and view.age(each.created_at) < _RECENT
    ]
    if len(failed) < _MANY:
        return ()
    return merged(map(explain_failed, failed[:_EXAMPLES]))


def _surplus(owner: Item, count: int) -> Cause:
    return Cause(
        code="PodsSurplus",
        state=State.PROGRESSING,
        what=f"{count} pods too many exist: the controller deletes them",
        object=owner.reference,
        field=_FIELD,
    )


async def stuck_endings(view: View, pods: Sequence[Item]) -> tuple[Cause, ...]:
    """Return the causes for which pods that are being deleted never end.

    Their owner has others, and is as stuck as they are.
    """
    found = await explain_ending_pods(view, pods)
    return tuple(each for each in found if each.state is State.STUCK)


async def explain_ending_pods(view: View, pods: Sequence[Item]) -> tuple[Cause, ...]:
    """Return the causes for which pods that are being deleted are still there."""
    ending = [each for each in pods if each.deleted_at]
    return merged([await explain_ending(view, each) for each in ending[:_EXAMPLES]])
