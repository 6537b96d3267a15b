"""The nodes that a daemon set needs (NodeShouldRunDaemonPod, GetTargetNodeName)."""

from enum import IntEnum
from typing import Final

import msgspec
from msgspec import Struct

from controller_manager.api.core.scheduling import (
    NO_EXECUTE,
    NO_SCHEDULE,
    NODE_NAME_FIELD,
    SchedulingSpec,
    Toleration,
)
from controller_manager.api.core.v1 import Node, Pod, PodTemplateSpec
from controller_manager.control.scheduling.affinity import RequiredNodes, required_nodes
from controller_manager.control.scheduling.taints import untolerated

from .pod_template import with_default_tolerations

_KEEPS_NEW_PODS_AWAY: Final = (NO_EXECUTE, NO_SCHEDULE)
_ENDS_PODS: Final = (NO_EXECUTE,)


class Fit(IntEnum):
    """The fit of a node: whether a pod of the daemon set may or must run there."""

    NONE = 0
    """No pod may run there; a pod that runs there is deleted."""

    KEEP = 1
    """A pod that runs there stays, but counts as misscheduled; it is not replaced."""

    RUN = 2
    """A pod must run there."""


class Placement(Struct, frozen=True):
    """The rules of a template about nodes, compiled, since many nodes are checked."""

    node_name: str
    required: RequiredNodes
    tolerations: tuple[Toleration, ...]
    compares_numbers: bool = False

    def fit(self, node: Node) -> Fit:
        """Return the fit of a node."""
        if self.node_name and self.node_name != node.metadata.name:
            return Fit.NONE
        if not self.required.matches(node):
            return Fit.NONE
        if not node.spec.taints or self._tolerates(node, _KEEPS_NEW_PODS_AWAY):
            return Fit.RUN
        return Fit.KEEP if self._tolerates(node, _ENDS_PODS) else Fit.NONE

    def _tolerates(self, node: Node, effects: tuple[str, ...]) -> bool:
        taint = untolerated(
            node.spec.taints,
            self.tolerations,
            effects,
            compares_numbers=self.compares_numbers,
        )
        return taint is None


def placement_of(template: PodTemplateSpec, *, compares_numbers: bool) -> Placement:
    """Return the placement of a template's pods, with the default tolerations.

    `compares_numbers` is the feature gate TaintTolerationComparisonOperators.
    """
    spec = msgspec.json.decode(template.spec, type=SchedulingSpec)
    return Placement(
        spec.node_name,
        required_nodes(spec.node_selector, spec.affinity),
        with_default_tolerations(
            spec.tolerations or (), host_network=spec.host_network
        ),
        compares_numbers,
    )


def target_of(pod: Pod) -> str:
    """Return the name of the node that a pod runs on, or must run on.

    A pod that is not bound yet names the node in its required node affinity, by the
    field metadata.name. Empty for a pod that names no node or several nodes.
    """
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity
    node_affinity = affinity.node_affinity if affinity is not None else None
    if node_affinity is None or node_affinity.required is None:
        return ""
    for term in node_affinity.required.node_selector_terms or ():
        for field in term.match_fields or ():
            if field.key == NODE_NAME_FIELD and field.operator == "In":
                values = field.values or ()
                return values[0] if len(values) == 1 else ""
    return ""
