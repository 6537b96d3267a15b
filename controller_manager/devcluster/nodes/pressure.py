"""Nodes under pressure, whose kubelets evict pods.

Upstream: pkg/kubelet/eviction. The kubelets measure nothing: an annotation of the node
names the pressure.
"""

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from controller_manager.devcluster.kinds.core.node import KIND as NODE
from controller_manager.devcluster.kinds.core.pod.strategy import KIND as POD
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.storage.storage import Key

from .event_notes import warning
from .events import KUBELET, Reporter
from .node_status import Pressure, pressure_of

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
