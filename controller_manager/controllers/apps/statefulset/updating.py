"""The pods that a rolling update deletes next (stateful_set_control.go).

They are deleted from the highest ordinal on, as soon as all wanted pods exist; the
next sync creates them anew from the update revision.
"""

from collections.abc import Sequence
from datetime import datetime

from controller_manager.api.core.v1 import Pod
from controller_manager.api.intstr import scaled_value
from controller_manager.api.meta import is_deleting
from controller_manager.api.pods import is_terminal
from controller_manager.api.workloads import desired_replicas
from controller_manager.controllers.apps.statefulset.evidence import (
    is_evidently_broken,
)
from controller_manager.controllers.apps.statefulset.identity import (
    ordinals,
    revision_of,
)
from controller_manager.controllers.apps.statefulset.view import (
    ROLLING_UPDATE,
    Slot,
    View,
)
from controller_manager.runtime.spread import Spread, parts


def revision_for(view: View, ordinal: int) -> str:
    """Return the revision that a new pod of an ordinal is made from.

    Below the partition it is the current one. Without any parameters of a rolling
    update, which only a very old API server stores, it is the current one for as
    many pods as have it (newVersionedStatefulSetPod).
    """
    strategy = view.stateful_set.spec.update_strategy
    index = ordinal - ordinals(view.stateful_set).start
    if strategy.rolling_update is not None:
        first = strategy.rolling_update.partition or 0
    elif strategy.type == ROLLING_UPDATE:
        first = view.stateful_set.status.current_replicas
    else:
        first = 0
    return view.revisions.current if index < first else view.revisions.update


def updates(view: View, slot: Slot) -> bool:
    """Tell whether a rolling update is to replace an old pod of this ordinal."""
    strategy = view.stateful_set.spec.update_strategy
    if strategy.type != ROLLING_UPDATE:
        return False
    index = slot.ordinal - ordinals(view.stateful_set).start
    return index >= partition(view)


def partition(view: View) -> int:
    """Return how many pods, from the lowest ordinal on, keep the current revision."""
    rolling = view.stateful_set.spec.update_strategy.rolling_update
    return (rolling.partition or 0) if rolling is not None else 0


def outdated_pods(
    view: View, slots: Sequence[Slot], now: datetime
) -> Spread[Sequence[Pod]]:
    """Return the pods that the rolling update deletes in this sync."""
    if view.stateful_set.spec.update_strategy.type != ROLLING_UPDATE:
        return ()
    highest_first = slots[partition(view) :][::-1]
    if view.settings.max_unavailable:
        budget = allowed_unavailable(view) - (yield from unavailable(view, slots, now))
        return (yield from _within_budget(view, highest_first, budget, now))
    return (yield from _next_one(view, highest_first, now))


def _next_one(
    view: View, highest_first: Sequence[Slot], now: datetime
) -> Spread[Sequence[Pod]]:
    """Return the highest old pod, if all above it are available."""
    for part in parts(highest_first):
        for slot in part:
            if slot.pod is not None and _is_outdated(view, slot.pod):
                return (slot.pod,)
            if view.is_unavailable(slot.pod, now):
                return ()
        yield
    return ()


def _within_budget(
    view: View, highest_first: Sequence[Slot], budget: int, now: datetime
) -> Spread[Sequence[Pod]]:
    """Return old pods, as many as may be unavailable besides those that are already.

    Replacing an old pod that is broken makes no more pods unavailable, so that needs
    no budget. Upstream 1.36 counts it, and stops when as many pods of a broken template
    are not ready; later versions replace every old pod that is unavailable, also one
    that only starts.
    """
    broken: list[Pod] = []
    others: list[Pod] = []
    for part in parts(highest_first):
        for slot in part:
            if slot.pod is not None and _is_outdated(view, slot.pod):
                found = broken if _is_broken(view, slot.pod, now) else others
                found.append(slot.pod)
        yield
    return (*broken, *others[: max(budget, 0)])


def _is_broken(view: View, pod: Pod, now: datetime) -> bool:
    if not view.settings.replaces_stuck_pods or not view.is_unavailable(pod, now):
        return False
    return is_evidently_broken(view, pod, now)


def allowed_unavailable(view: View) -> int:
    """Return how many pods may be unavailable during the update, at least one.

    Raises IntOrStringError for a value that the API server does not allow.
    """
    rolling = view.stateful_set.spec.update_strategy.rolling_update
    if rolling is None or rolling.max_unavailable is None:
        return 1
    replicas = desired_replicas(view.stateful_set)
    return max(1, scaled_value(rolling.max_unavailable, replicas, round_up=False))


def unavailable(view: View, slots: Sequence[Slot], now: datetime) -> Spread[int]:
    """Return how many wanted pods are missing, terminating or not yet available."""
    number = 0
    for part in parts(slots):
        number += sum(view.is_unavailable(slot.pod, now) for slot in part)
        yield
    return number


def _is_outdated(view: View, pod: Pod) -> bool:
    """Tell whether an old pod stands there; one that has ended goes anyway."""
    return (
        revision_of(pod) != view.revisions.update
        and not is_deleting(pod)
        and not is_terminal(pod)
    )
