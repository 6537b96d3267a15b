"""Whether a daemon set's pod may run on a node (NodeShouldRunDaemonPod)."""

from enum import IntEnum
from typing import Final

import msgspec
from msgspec import Struct

from controller_manager.api.core.scheduling import (
    NO_EXECUTE,
    NO_SCHEDULE,
    SchedulingSpec,
    Toleration,
)
from controller_manager.api.core.v1 import Node, PodTemplateSpec
from controller_manager.control.scheduling.affinity import RequiredNodes, required_nodes
from controller_manager.control.scheduling.taints import untolerated
from controller_manager.controllers.apps.daemonset.tolerations import (
    with_default_tolerations,
)

_KEEPS_NEW_PODS_AWAY: Final = (NO_EXECUTE, NO_SCHEDULE)
_ENDS_PODS: Final = (NO_EXECUTE,)


class Fit(IntEnum):
    """What a node is to a daemon set."""

    NONE = 0
    """No pod may run there; one that does is deleted."""

    KEEP = 1
    """A pod that runs there stays, but counts as misscheduled; it is not replaced."""

    RUN = 2
    """A pod has to run there."""


class Placement(Struct, frozen=True):
    """What a template says about nodes, compiled: many nodes are checked with it."""

    node_name: str
    required: RequiredNodes
    tolerations: tuple[Toleration, ...]
    compares_numbers: bool = False

    def fit(self, node: Node) -> Fit:
        """Return what the node is to the daemon set."""
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
