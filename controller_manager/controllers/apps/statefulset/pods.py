"""The pods of a stateful set: which belong to it, and their states."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from controller_manager.api.apps.v1 import StatefulSet
from controller_manager.api.core.v1 import ContainerStatus, Pod, PodCondition
from controller_manager.api.meta import is_deleting, labels_of
from controller_manager.api.owners import controller_of
from controller_manager.api.pods import is_available, is_ready, ready_condition
from controller_manager.api.selectors import Selector

from .identity import ordinal_of


class FoundPods(Struct, frozen=True):
    """The pods of a set, and orphans that its selector matches.

    `named` are those with a name that the set gives. `misnamed` are pods that the set
    controls, but without such a name.
    """

    stateful_set: StatefulSet
    selector: Selector
    named: Sequence[Pod]
    misnamed: Sequence[Pod]
    uids: Collection[str]

    def lacks(self, pod: Pod) -> bool:
        """Tell whether a pod with a name of the set came after the search.

        The set controls the pod, or would adopt it.
        """
        if pod.metadata.uid in self.uids:
            return False
        controller = controller_of(pod)
        if controller is not None:
            return controller.uid == self.stateful_set.metadata.uid
        return self.selector.matches(labels_of(pod)) and not is_deleting(pod)


def find_pods(
    stateful_set: StatefulSet,
    selector: Selector,
    owned: Sequence[Pod],
    orphans: Sequence[Pod],
) -> FoundPods:
    """Return the pods of a set, divided by whether the set gives their names."""
    namespace = stateful_set.metadata.namespace
    named: list[Pod] = []
    misnamed: list[Pod] = []
    uids: set[str] = set()
    for pod in (*owned, *orphans):
        uids.add(pod.metadata.uid)
        if pod.metadata.namespace != namespace:
            continue  # a forged owner reference may name a set elsewhere
        if ordinal_of(stateful_set, pod) is not None:
            named.append(pod)
        elif controller_of(pod) is not None:
            misnamed.append(pod)
    return FoundPods(stateful_set, selector, named, misnamed, uids)


def is_running_and_ready(pod: Pod) -> bool:
    """Tell whether the pod runs and is ready; it may be terminating."""
    return pod.status.phase == "Running" and is_ready(pod)


def is_unavailable(pod: Pod | None, min_ready_seconds: int, now: datetime) -> bool:
    """Tell whether the pod is missing, terminating, or not ready for long enough."""
    if pod is None or is_deleting(pod):
        return True
    return not is_available(pod, min_ready_seconds, now)


NO_NODE: Final = ""
"""The name of the failure of a pod that fits no node; others name containers."""


_REASONS: Final = frozenset(
    (
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
    )
)
"""Reasons of waiting containers that do not start by themselves, from kubelets."""


def start_failures(pod: Pod) -> Mapping[str, int]:
    """Return the start failures of a pod: containers with their restarts so far.

    After a power cut all pods of a set start, and a database may replay its log for
    half an hour. Only the status of a pod distinguishes such a pod from one that never
    starts: a container that its kubelet cannot start, or no node that the pod fits on.

    The keys are the names of the waiting containers, or `NO_NODE`. Empty for a ready
    pod.
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


def unready_condition(pod: Pod) -> PodCondition | None:
    """Return the condition with the time since which a pod is not ready."""
    return _unschedulable(pod) or ready_condition(pod)


def _unschedulable(pod: Pod) -> PodCondition | None:
    """Return the condition of the scheduler that the pod fits on no node."""
    for each in pod.status.conditions or ():
        if each.type == "PodScheduled" and each.status == "False":
            return each if each.reason == "Unschedulable" else None
    return None
