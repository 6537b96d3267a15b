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

from controller_manager.api.apps.v1 import desired_replicas
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting
from controller_manager.api.pods import is_terminal
from controller_manager.api.scalars import parse_time, scaled_value

from .failures import unready_condition
from .identity import ordinals
from .replicas import ROLLING_UPDATE, Replicas, Slot, is_running_and_ready

LEAST_FAILURE_SECONDS: Final = 600
"""A pod that has failed to start for a shorter time never counts as broken."""


def revision_for(replicas: Replicas, ordinal: int) -> str:
    """Return the revision that a new pod of an ordinal is made from."""
    # Below the partition it is the current revision. If the strategy has no parameters,
    # which only a very old API server stores, as many pods as have the current revision
    # keep it (newVersionedStatefulSetPod).
    strategy = replicas.stateful_set.spec.update_strategy
    index = ordinal - ordinals(replicas.stateful_set).start
    if strategy.rolling_update is not None:
        first = strategy.rolling_update.partition or 0
    elif strategy.type == ROLLING_UPDATE:
        first = replicas.stateful_set.status.current_replicas
    else:
        first = 0
    return replicas.revisions.current if index < first else replicas.revisions.update


def updates(replicas: Replicas, slot: Slot) -> bool:
    """Tell whether a rolling update replaces an old pod of this ordinal."""
    strategy = replicas.stateful_set.spec.update_strategy
    if strategy.type != ROLLING_UPDATE:
        return False
    index = slot.ordinal - ordinals(replicas.stateful_set).start
    return index >= partition(replicas)


def partition(replicas: Replicas) -> int:
    """Return the number of pods, from the lowest ordinal on, that are not updated."""
    rolling = replicas.stateful_set.spec.update_strategy.rolling_update
    return (rolling.partition or 0) if rolling is not None else 0


def outdated_pods(replicas: Replicas, now: datetime) -> Sequence[Pod]:
    """Return the pods that the rolling update deletes in this sync."""
    if replicas.stateful_set.spec.update_strategy.type != ROLLING_UPDATE:
        return ()
    highest_first = replicas.slots[partition(replicas) :][::-1]
    if replicas.settings.max_unavailable:
        budget = allowed_unavailable(replicas) - unavailable(replicas, now)
        return _within_budget(replicas, highest_first, budget, now)
    # The highest old pod, if all pods above it are available.
    for slot in highest_first:
        if slot.pod is not None and _is_outdated(replicas, slot.pod):
            return (slot.pod,)
        if replicas.is_unavailable(slot.pod, now):
            return ()
    return ()


def _within_budget(
    replicas: Replicas, highest_first: Sequence[Slot], budget: int, now: datetime
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
        if slot.pod is not None and _is_outdated(replicas, slot.pod):
            needs_no_budget = (
                replicas.settings.replaces_stuck_pods
                and replicas.is_unavailable(slot.pod, now)
                and is_broken(replicas, slot.pod, now)
            )
            (broken if needs_no_budget else others).append(slot.pod)
    return (*broken, *others[: max(budget, 0)])


def allowed_unavailable(replicas: Replicas) -> int:
    """Return the number of pods that may be unavailable during the update, at least 1.

    Raises IntOrStringError for a value that the API server does not allow.
    """
    rolling = replicas.stateful_set.spec.update_strategy.rolling_update
    if rolling is None or rolling.max_unavailable is None:
        return 1
    wanted = desired_replicas(replicas.stateful_set)
    return max(1, scaled_value(rolling.max_unavailable, wanted, round_up=False))


def unavailable(replicas: Replicas, now: datetime) -> int:
    """Return the number of wanted pods that are missing or not available."""
    return sum(replicas.is_unavailable(slot.pod, now) for slot in replicas.slots)


def _is_outdated(replicas: Replicas, pod: Pod) -> bool:
    # The update need not delete a pod that is being deleted, or has ended and is
    # deleted anyway.
    return (
        replicas.revision_of(pod) != replicas.revisions.update
        and not is_deleting(pod)
        and not is_terminal(pod)
    )


def next_stuck_pod(replicas: Replicas, awaited: Slot, now: datetime) -> Pod | None:
    """Return the pod to replace while the sync waits for the pod of `awaited`."""
    # `None` if that pod itself is not stuck, or if a replaced pod still terminates.
    if not replicas.settings.replaces_stuck_pods:
        return None
    if (awaited_pod := _broken_pod(replicas, awaited, now)) is None:
        return None
    current_is_broken = _current_is_broken(replicas, now)

    def is_stuck(pod: Pod) -> bool:
        revision = replicas.revision_of(pod)
        return current_is_broken or revision != replicas.revisions.current

    if not is_stuck(awaited_pod):
        return None
    if any(slot.pod is not None and is_deleting(slot.pod) for slot in replicas.slots):
        return None
    broken = (_broken_pod(replicas, slot, now) for slot in reversed(replicas.slots))
    return next((pod for pod in broken if pod is not None and is_stuck(pod)), None)


def seconds_until_broken(replicas: Replicas, now: datetime) -> float | None:
    """Return the seconds until the next old pod counts as broken, if one fails."""
    if not replicas.settings.replaces_stuck_pods or not replicas.failing_since:
        return None
    old = (_old_pod(replicas, slot) for slot in replicas.slots)
    instants = [broken_at(replicas, pod) for pod in old if pod is not None]
    later = (each for each in instants if each is not None and each > now)
    first = min(later, default=None)
    return (first - now) / timedelta(seconds=1) if first is not None else None


def _old_pod(replicas: Replicas, slot: Slot) -> Pod | None:
    pod = slot.pod
    if pod is None or not updates(replicas, slot):
        return None
    is_old = replicas.revision_of(pod) not in ("", replicas.revisions.update)
    return pod if is_old else None


def _broken_pod(replicas: Replicas, slot: Slot, now: datetime) -> Pod | None:
    pod = slot.pod
    if pod is None or is_deleting(pod) or is_running_and_ready(pod):
        return None
    if _old_pod(replicas, slot) is None or not is_broken(replicas, pod, now):
        return None
    return pod


def _current_is_broken(replicas: Replicas, now: datetime) -> bool:
    # Not if a pod of the update revision is unavailable: the new template may be
    # broken, too.
    current, update = replicas.revisions.current, replicas.revisions.update
    for pod in replicas.pods:
        revision = replicas.revision_of(pod)
        if revision == current and is_running_and_ready(pod):
            return False
        if revision == update and replicas.is_unavailable(pod, now):
            return False
    return True


def broken_at(replicas: Replicas, pod: Pod) -> datetime | None:
    """Return the instant from which on a pod counts as broken, if it fails to start."""
    # It is ten minutes, or `minReadySeconds` if that is longer, after the later of two
    # instants: the controller first saw the start failures of the pod, and the pod
    # ceased to be ready or was found to fit no node.
    seen = replicas.failing_since.get(pod.metadata.uid)
    condition = unready_condition(pod)
    if seen is None or condition is None or not condition.last_transition_time:
        return None
    since = max(seen, parse_time(condition.last_transition_time))
    seconds = max(LEAST_FAILURE_SECONDS, replicas.min_ready_seconds)
    return since + timedelta(seconds=seconds)


def is_broken(replicas: Replicas, pod: Pod, now: datetime) -> bool:
    """Tell whether a pod counts as broken now."""
    instant = broken_at(replicas, pod)
    return instant is not None and instant <= now
