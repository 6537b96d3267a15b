"""Chooses the pods that the pod garbage collector deletes (gc_controller.go)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller_manager.api.core.v1 import Node, Pod
from controller_manager.api.meta import is_deleting

_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_ALIVE: Final = frozenset(("Pending", "Running", "Unknown"))
_EVICTED: Final = "Evicted"


def may_be_collected(pod: Pod, nodes: Mapping[str, Node]) -> bool:
    """Tell whether one of the functions below may choose a pod; False for most pods."""
    return (
        pod.status.phase not in _ALIVE
        or is_deleting(pod)
        or bool(pod.spec.node_name and pod.spec.node_name not in nodes)
    )


def is_disrupted(pod: Pod) -> bool:
    """Tell whether the condition DisruptionTarget is true; then its time is kept."""
    return any(
        each.type == "DisruptionTarget" and each.status == "True"
        for each in pod.status.conditions or ()
    )


def terminated_above_threshold(pods: Iterable[Pod], threshold: int) -> list[Pod]:
    """Return the terminated pods above the threshold: evicted first, then oldest.

    A threshold of 0 or less keeps all pods.
    """
    if threshold <= 0:
        return []
    ended = [pod for pod in pods if pod.status.phase not in _ALIVE]
    surplus = len(ended) - threshold
    return sorted(ended, key=_order)[:surplus] if surplus > 0 else []


def _order(pod: Pod) -> tuple[bool, str, str]:
    evicted = pod.status.phase == "Failed" and pod.status.reason == _EVICTED
    return not evicted, pod.metadata.creation_timestamp or "", pod.metadata.name


def terminating_out_of_service(
    pods: Iterable[Pod], nodes: Mapping[str, Node]
) -> list[Pod]:
    """Return the terminating pods of nodes that are out of service.

    Such a node is not ready, and it has the taint out-of-service, so its kubelet will
    not end its pods.
    """
    return sorted(
        (
            pod
            for pod in pods
            if is_deleting(pod)
            and (node := nodes.get(pod.spec.node_name)) is not None
            and _is_out_of_service(node)
        ),
        key=_order,
    )


def _is_out_of_service(node: Node) -> bool:
    ready = any(
        each.type == "Ready" and each.status == "True"
        for each in node.status.conditions or ()
    )
    return not ready and any(
        each.key == _OUT_OF_SERVICE for each in node.spec.taints or ()
    )


def unscheduled_terminating(pods: Sequence[Pod]) -> list[Pod]:
    """Return the terminating pods without a node; no kubelet will end them."""
    return [pod for pod in pods if is_deleting(pod) and not pod.spec.node_name]


def missing_nodes(pods: Iterable[Pod], nodes: Mapping[str, Node]) -> set[str]:
    """Return the names of nodes that pods are bound to and that do not exist."""
    return {pod.spec.node_name for pod in pods} - nodes.keys() - {""}
