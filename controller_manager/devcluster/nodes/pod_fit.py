"""The kubelet's check that a pod fits the node to which it is bound.

Upstream: pkg/kubelet/lifecycle/predicate.go.
"""

from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheduler.filters import TOO_MANY, shortages
from controller_manager.devcluster.scheduler.node_infos import (
    NodeInfo,
    NodeInfos,
    PodInfo,
)
from controller_manager.devcluster.scheduler.predicates import UNMATCHED, affinity_fits

_UNITS: Final = {"cpu": 10**6}
"""In billionths; the amounts of all other resources are shown as whole numbers."""

_ONE: Final = 10**9


class Rejection(Struct, frozen=True):
    """The rejection of a pod by a kubelet: reason and message of its failure."""

    reason: str
    message: str


class PodFit:
    """Rejects pods that do not fit their nodes."""

    def __init__(self, infos: NodeInfos) -> None:
        self._infos = infos

    def why_not(self, pod: JSON) -> Rejection | None:
        """Return why a new pod is rejected, `None` if it fits.

        A rejected pod no longer counts for other pods.
        """
        rejection = self._checked(pod)
        if rejection is not None:
            metadata = pod["metadata"]
            self._infos.remove_pod((metadata["namespace"], metadata["name"]))
        return rejection

    def _checked(self, pod: JSON) -> Rejection | None:
        node = self._infos.nodes.get(pod["spec"]["nodeName"])
        if node is None or not node.facts.allocatable:
            return None  # the resources of the node are unknown
        info = self._info_of(pod)
        if info.requests and (short := _shortage(info, node)):
            return short
        if affinity_fits(pod, node.facts):
            return None
        return Rejection("NodeAffinity", f"Predicate NodeAffinity failed: {UNMATCHED}")

    def _info_of(self, pod: JSON) -> PodInfo:
        """Return the facts of a pod; the scheduler has found those of most pods."""
        metadata = pod["metadata"]
        known = self._infos.pod((metadata["namespace"], metadata["name"]))
        if known is not None and known.uid == metadata["uid"]:
            return known
        return PodInfo.of(pod)


def _shortage(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    """Return the rejection of a pod by a full node; the pod may be counted already."""
    counted = node.remove(pod.key) if pod.key in node.pods else None
    try:
        return _missing(pod, node)
    finally:
        if counted is not None:
            node.add(counted)


def _missing(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    found = next(iter(shortages(pod, node, ())), "")
    if not found or found == TOO_MANY:
        return None
    name = found.partition(" ")[2]
    unit = _UNITS.get(name, _ONE)
    wanted = pod.requests[name] // unit
    used = node.requested.get(name, 0) // unit
    has = node.facts.allocatable.get(name, 0) // unit
    return Rejection(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {wanted}, used: {used}, "
        f"capacity: {has}",
    )
