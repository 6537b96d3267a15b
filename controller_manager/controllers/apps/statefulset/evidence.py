"""Evidence that a pod is broken: it does not only take its time to start.

After a power cut all pods of a set start, and a database may replay its log for half an
hour. Nothing but the pod's own status distinguishes such a pod from one that never
starts: a container that its kubelet cannot start, or no node that takes the pod.

A status does not say since when a container waits. So the controller remembers when it
first saw the evidence (`evidence_memory`), and hands it to the decision in the view.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from controller_manager.api.core.v1 import ContainerStatus, Pod, PodCondition
from controller_manager.api.pods import ready_condition
from controller_manager.api.times import parse_time
from controller_manager.controllers.apps.statefulset.view import View

LEAST_SECONDS: Final = 600
"""Evidence that has lasted for a shorter time never makes a pod count as broken."""

NO_NODE: Final = ""
"""The name of the evidence that no node takes a pod; others are named by containers."""

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


def broken_at(view: View, pod: Pod) -> datetime | None:
    """Return the instant from which on a pod counts as broken.

    That is ten minutes, or `minReadySeconds` if they are longer, after the controller
    first saw the evidence, or after the pod ceased to be ready, or was found to fit no
    node, if that was later. `None` for a pod without evidence now.
    """
    seen, condition = view.evidence.get(pod.metadata.uid), _condition(pod)
    if seen is None or condition is None or not condition.last_transition_time:
        return None
    since = max(seen, parse_time(condition.last_transition_time))
    return since + timedelta(seconds=max(LEAST_SECONDS, view.min_ready_seconds))


def is_evidently_broken(view: View, pod: Pod, now: datetime) -> bool:
    """Tell whether a pod counts as broken now."""
    instant = broken_at(view, pod)
    return instant is not None and instant <= now


def evidence_of(pod: Pod) -> Mapping[str, int]:
    """Return what keeps a pod from starting now, with the restarts until then.

    The keys are the containers that wait in vain, or `NO_NODE`. Empty for a pod that is
    ready.
    """
    if _unschedulable(pod) is not None:
        return {NO_NODE: 0}
    condition = ready_condition(pod)
    if condition is None or condition.status == "True":
        return {}
    return {
        each.name: each.restart_count
        for each in container_statuses(pod)
        if each.state.waiting is not None and each.state.waiting.reason in _REASONS
    }


def container_statuses(pod: Pod) -> Iterator[ContainerStatus]:
    """Yield the statuses of containers and init containers."""
    yield from pod.status.container_statuses or ()
    yield from pod.status.init_container_statuses or ()


def _condition(pod: Pod) -> PodCondition | None:
    """Return the condition that says since when a pod cannot work."""
    return _unschedulable(pod) or ready_condition(pod)


def _unschedulable(pod: Pod) -> PodCondition | None:
    """Return the condition by which the scheduler says that no node takes the pod."""
    for each in pod.status.conditions or ():
        if each.type == "PodScheduled" and each.status == "False":
            return each if each.reason == "Unschedulable" else None
    return None
