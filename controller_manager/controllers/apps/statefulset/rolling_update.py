"""The strategy RollingUpdate: revisions of new pods, and pods to delete.

The update deletes old pods from the highest ordinal on, as soon as all wanted pods
exist. The next sync creates them anew from the update revision.

With OrderedReady, upstream waits until every pod is ready before it replaces one. A
pod whose template is broken is never ready, so a repaired template is not rolled
out until a user deletes that pod (kubernetes#67250). This controller replaces such
pods. A pod that is not ready is stuck if it is broken (`is_broken`), and its revision
is neither the update revision nor a revision that works:

- A revision that is neither the current nor the update revision belongs to an update
  that was given up. Its pods are replaced.
- The current revision works if one of its pods is ready. Then the sync waits for a pod
  that is not ready, as upstream, because it may recover. If none is ready, its pods
  are replaced one after the other. They are not replaced while a pod of the update
  revision is not available: the new template may be broken, too.

Another client has created a pod without a revision. The sync waits for such a pod. Of
several stuck pods the highest is replaced first, as in every update.

Upstream: stateful_set_control.go and stateful_set_utils.go.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from controller_manager.api.core.v1 import Pod
from controller_manager.api.intstr import scaled_value
from controller_manager.api.meta import is_deleting
from controller_manager.api.pods import is_terminal
from controller_manager.api.times import parse_time
from controller_manager.api.workloads import desired_replicas

from .identity import ordinals
from .pods import is_running_and_ready, unready_condition
from .view import ROLLING_UPDATE, Slot, View

LEAST_FAILURE_SECONDS: Final = 600
"""A pod that has failed to start for a shorter time never counts as broken."""


def revision_for(view: View, ordinal: int) -> str:
    """Return the revision that a new pod of an ordinal is made from.

    Below the partition it is the current revision. If the strategy has no parameters,
    which only a very old API server stores, as many pods as have the current revision
    keep it (newVersionedStatefulSetPod).
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
    """Tell whether a rolling update replaces an old pod of this ordinal."""
    strategy = view.stateful_set.spec.update_strategy
    if strategy.type != ROLLING_UPDATE:
        return False
    index = slot.ordinal - ordinals(view.stateful_set).start
    return index >= partition(view)


def partition(view: View) -> int:
    """Return the number of pods, from the lowest ordinal on, that are not updated."""
    rolling = view.stateful_set.spec.update_strategy.rolling_update
    return (rolling.partition or 0) if rolling is not None else 0


def outdated_pods(view: View, slots: Sequence[Slot], now: datetime) -> Sequence[Pod]:
    """Return the pods that the rolling update deletes in this sync."""
    if view.stateful_set.spec.update_strategy.type != ROLLING_UPDATE:
        return ()
    highest_first = slots[partition(view) :][::-1]
    if view.settings.max_unavailable:
        budget = allowed_unavailable(view) - (unavailable(view, slots, now))
        return _within_budget(view, highest_first, budget, now)
    return _next_one(view, highest_first, now)


def _next_one(
    view: View, highest_first: Sequence[Slot], now: datetime
) -> Sequence[Pod]:
    """Return the highest old pod, if all pods above it are available."""
    for slot in highest_first:
        if slot.pod is not None and _is_outdated(view, slot.pod):
            return (slot.pod,)
        if view.is_unavailable(slot.pod, now):
            return ()
    return ()


def _within_budget(
    view: View, highest_first: Sequence[Slot], budget: int, now: datetime
) -> Sequence[Pod]:
    """Return broken old pods, and as many other old pods as the budget allows.

    `budget` is the number of pods that may become unavailable. Replacing a broken pod
    makes no further pod unavailable, so it needs no budget. Upstream 1.36 counts it,
    and so stops when that many pods of a broken template are not ready. Later versions
    replace every unavailable old pod, even one that is still starting.
    """
    broken: list[Pod] = []
    others: list[Pod] = []
    for slot in highest_first:
        if slot.pod is not None and _is_outdated(view, slot.pod):
            found = (
                broken
                if _is_replaced_beyond_the_budget(view, slot.pod, now)
                else others
            )
            found.append(slot.pod)
    return (*broken, *others[: max(budget, 0)])


def _is_replaced_beyond_the_budget(view: View, pod: Pod, now: datetime) -> bool:
    if not view.settings.replaces_stuck_pods or not view.is_unavailable(pod, now):
        return False
    return is_broken(view, pod, now)


def allowed_unavailable(view: View) -> int:
    """Return the number of pods that may be unavailable during the update, at least 1.

    Raises IntOrStringError for a value that the API server does not allow.
    """
    rolling = view.stateful_set.spec.update_strategy.rolling_update
    if rolling is None or rolling.max_unavailable is None:
        return 1
    replicas = desired_replicas(view.stateful_set)
    return max(1, scaled_value(rolling.max_unavailable, replicas, round_up=False))


def unavailable(view: View, slots: Sequence[Slot], now: datetime) -> int:
    """Return the number of wanted pods that are missing or not available."""
    return sum(view.is_unavailable(slot.pod, now) for slot in slots)


def _is_outdated(view: View, pod: Pod) -> bool:
    """Tell whether the update must delete a pod.

    It need not if the pod is being deleted, or has ended and is deleted anyway.
    """
    return (
        view.revision_of(pod) != view.revisions.update
        and not is_deleting(pod)
        and not is_terminal(pod)
    )


def next_stuck_pod(
    view: View, slots: Sequence[Slot], awaited: Slot, now: datetime
) -> Pod | None:
    """Return the pod to replace while the sync waits for the pod of `awaited`.

    `slots` are all wanted ordinals. `None` if that pod itself is not stuck, or if a
    replaced pod still terminates.
    """
    if not _may_be_stuck(view, awaited, now):
        return None
    is_broken = _current_is_broken(view, now)
    if not is_broken and _is_current(view, awaited):
        return None
    highest: Pod | None = None
    for slot in slots:
        if slot.pod is not None and is_deleting(slot.pod):
            return None
        if _may_be_stuck(view, slot, now) and (
            is_broken or not _is_current(view, slot)
        ):
            highest = slot.pod
    return highest


def seconds_until_broken(
    view: View, slots: Sequence[Slot], now: datetime
) -> float | None:
    """Return the seconds until the next old pod counts as broken.

    `slots` are all wanted ordinals. `None` if no old pod has start failures.
    """
    if not view.settings.replaces_stuck_pods or not view.failing_since:
        return None
    first: datetime | None = None
    for slot in slots:
        instant = _old_pod_broken_at(view, slot)
        if instant is not None and instant > now:
            first = instant if first is None else min(first, instant)
    return (first - now) / timedelta(seconds=1) if first is not None else None


def _old_pod_broken_at(view: View, slot: Slot) -> datetime | None:
    """Return the instant at which an old pod counts as broken, `None` for others."""
    pod = slot.pod
    if pod is None or not updates(view, slot):
        return None
    if view.revision_of(pod) in ("", view.revisions.update):
        return None
    return broken_at(view, pod)


def _may_be_stuck(view: View, slot: Slot, now: datetime) -> bool:
    """Tell whether a pod is stuck, unless its revision works."""
    pod = slot.pod
    if pod is None or not view.settings.replaces_stuck_pods:
        return False
    if is_deleting(pod) or is_running_and_ready(pod) or not updates(view, slot):
        return False
    if view.revision_of(pod) in ("", view.revisions.update):
        return False
    return is_broken(view, pod, now)


def _is_current(view: View, slot: Slot) -> bool:
    return slot.pod is not None and view.revision_of(slot.pod) == view.revisions.current


def _current_is_broken(view: View, now: datetime) -> bool:
    """Tell whether no pod of the current revision is ready.

    Returns False if a pod of the update revision is not available, because the new
    template may be broken, too.
    """
    current, update = view.revisions.current, view.revisions.update
    for pod in view.pods:
        revision = view.revision_of(pod)
        if revision == current and is_running_and_ready(pod):
            return False
        if revision == update and view.is_unavailable(pod, now):
            return False
    return True


def broken_at(view: View, pod: Pod) -> datetime | None:
    """Return the instant from which on a pod counts as broken.

    It is ten minutes, or `minReadySeconds` if that is longer, after the later of two
    instants: the controller first saw the start failures of the pod, and the pod ceased
    to be ready or was found to fit no node. `None` for a pod without start failures.
    """
    seen, condition = view.failing_since.get(pod.metadata.uid), unready_condition(pod)
    if seen is None or condition is None or not condition.last_transition_time:
        return None
    since = max(seen, parse_time(condition.last_transition_time))
    return since + timedelta(seconds=max(LEAST_FAILURE_SECONDS, view.min_ready_seconds))


def is_broken(view: View, pod: Pod, now: datetime) -> bool:
    """Tell whether a pod counts as broken now."""
    instant = broken_at(view, pod)
    return instant is not None and instant <= now
