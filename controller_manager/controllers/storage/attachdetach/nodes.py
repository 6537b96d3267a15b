"""The parts of a node's spec and status that matter for its volumes."""

from typing import Final

from controller_manager.api.conditions import true_condition
from controller_manager.api.core.v1 import Node

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""The taint by which a user declares that nothing runs on a node any more."""


def is_managed(node: Node) -> bool:
    """Tell whether the kubelet leaves attaching to this controller."""
    annotations = node.metadata.annotations
    return annotations is not None and annotations.managed_attach_detach is not None


def keeps_volumes_of_ended_pods(node: Node | None) -> bool:
    """Tell whether the volumes of ended pods stay attached until the pods are gone."""
    annotations = node.metadata.annotations if node is not None else None
    return annotations is not None and annotations.keep_terminated_pod_volumes == "true"


def is_ready(node: Node) -> bool:
    """Tell whether the condition Ready of a node is true."""
    return true_condition(node.status.conditions, "Ready") is not None


def is_out_of_service(node: Node) -> bool:
    """Tell whether a user has declared that nothing runs on a node any more."""
    return any(each.key == OUT_OF_SERVICE for each in node.spec.taints or ())
