"""Evidence that a pod is broken: it does not only take its time to start.

After a power cut all pods of a set start, and a database may replay its log for half an
hour. Nothing but the pod's own status distinguishes such a pod from one that never
starts: a container that its kubelet cannot start, or no node that takes the pod.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from controller_manager.api.core.v1 import ContainerStatus, Pod, PodCondition
from controller_manager.api.pods import ready_condition
from controller_manager.api.times import parse_time

LEAST_SECONDS: Final = 600
"""A pod that has not been ready for a shorter time is never taken for broken."""

_REASONS: Final = frozenset(
    (
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
    )
)
"""Why a container waits that does not start by itself, as kubelets write it."""


def broken_at(pod: Pod, min_ready_seconds: int) -> datetime | None:
    """Return the instant from which on a pod counts as broken.

    That is ten minutes, or `min_ready_seconds` if they are longer, after the pod ceased
    to be ready, or was found to fit no node. `None` for a pod without evidence. A
    container that crashes again and again runs in between; so what counts is how long
    the pod has not been ready.
    """
    condition = _unschedulable(pod) or _kept_from_starting(pod)
    if condition is None or not condition.last_transition_time:
        return None
    since = parse_time(condition.last_transition_time)
    return since + timedelta(seconds=max(LEAST_SECONDS, min_ready_seconds))


def is_evidently_broken(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Tell whether a pod counts as broken now."""
    instant = broken_at(pod, min_ready_seconds)
    return instant is not None and instant <= now


def _unschedulable(pod: Pod) -> PodCondition | None:
    """Return the condition by which the scheduler says that no node takes the pod."""
    for each in pod.status.conditions or ():
        if each.type == "PodScheduled" and each.status == "False":
            return each if each.reason == "Unschedulable" else None
    return None


def _kept_from_starting(pod: Pod) -> PodCondition | None:
    """Return the Ready condition of a pod with a container that does not start."""
    condition = ready_condition(pod)
    if condition is None or condition.status == "True":
        return None
    status = pod.status
    waits = _waits_in_vain(status.container_statuses or ()) or _waits_in_vain(
        status.init_container_statuses or ()
    )
    return condition if waits else None


def _waits_in_vain(statuses: Iterable[ContainerStatus]) -> bool:
    waiting = (each.state.waiting for each in statuses)
    return any(each is not None and each.reason in _REASONS for each in waiting)
