"""The pods that a kubelet takes, and those that it evicts.

Upstream: pkg/kubelet/lifecycle/predicate.go and pkg/kubelet/eviction.
"""

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.registry.core.nodes import KIND as NODE
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.scheduler.filters import TOO_MANY, shortages
from controller_manager.devcluster.scheduler.node_infos import (
    NodeInfo,
    NodeInfos,
    PodInfo,
)
from controller_manager.devcluster.scheduler.predicates import UNMATCHED, affinity_fits
from controller_manager.devcluster.storage import Key

from .events import KUBELET, Reporter, warning
from .node_status import Pressure, pressure_of

# The kubelet's check that a pod fits the node to which it is bound.

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


# Nodes under pressure, whose kubelets evict pods.

_CRITICAL: Final = 2_000_000_000
"""Pods of this priority and above are evicted last: here never."""

_RANKS: Final = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}


class _Victim(Struct, frozen=True, order=True):
    """A pod that may be evicted; the smallest one is evicted first."""

    rank: int
    priority: int
    key: Key


class Evictions:
    """Evicts one pod after the other from nodes that are under pressure."""

    def __init__(
        self,
        objects: Objects,
        report: Reporter,
        pods_on: Callable[[str], Iterable[Key]],
        evict: Callable[[Key, str], None],
    ) -> None:
        self._pods = objects.storage.collection(POD.resource)
        self._nodes = objects.storage.collection(NODE.resource)
        self._report = report
        self._pods_on = pods_on
        self._evict = evict

    def relieve(self, name: str) -> None:
        """Evict a pod from a node if it is under pressure."""
        stored = self._nodes.get(("", name))
        pressure = pressure_of(stored.obj) if stored is not None else None
        if stored is None or pressure is None:
            return
        message = f"Attempting to reclaim {pressure.resource}"
        reason = "EvictionThresholdMet"
        self._report.other(KUBELET, stored.obj, "Warning", reason, message)
        victim = min(self._victims(name), default=None)
        if victim is not None:
            self._evict_one(victim.key, pressure)

    def _victims(self, node: str) -> Iterable[_Victim]:
        for key in self._pods_on(node):
            stored = self._pods.get(key)
            if stored is None or "deletionTimestamp" in stored.obj["metadata"]:
                continue
            pod = stored.obj
            priority = pod["spec"].get("priority") or 0
            if priority < _CRITICAL and pod["status"].get("startTime"):
                rank = _RANKS.get(pod["status"].get("qosClass", ""), 0)
                yield _Victim(rank, priority, key)

    def _evict_one(self, key: Key, pressure: Pressure) -> None:
        stored = self._pods.get(key)
        if stored is None:
            return
        message = f"The node was low on resource: {pressure.resource}. "
        if pressure.threshold:
            message += (
                f"Threshold quantity: {pressure.threshold}, available: "
                f"{pressure.available}. "
            )
        self._report.kubelet(stored.obj, warning("Evicted", message))
        self._evict(key, message)
