"""The nodes of kubelets: status, leases, addresses, and the pods that they take."""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import QuantityError, parse_quantity
from controller_manager.api.scalars import format_micro_time, format_time, parse_time
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.csi.driver import csi_node, node_annotations
from controller_manager.devcluster.registry.coordination import LEASES
from controller_manager.devcluster.registry.core.cluster import NAMESPACES as NAMESPACE
from controller_manager.devcluster.registry.core.cluster import NODES as NODE
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.registry.storage import CSI_NODES
from controller_manager.devcluster.scheduler import node_infos
from controller_manager.devcluster.scheduler.filters import PORTS, TOO_MANY, shortages
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.devcluster.storage import Key, key_of
from controller_manager.version import KUBERNETES_VERSION

from .events import KUBELET, Reporter, warning

# The addresses of nodes and of pods.

IPV4: Final = "IPv4"
IPV6: Final = "IPv6"

_FIRST_NODE: Final = 2


def _node_address(number: int) -> str:
    """Return the address of a node in the range 172.18.0.0/16, by its number."""
    high, low = divmod(number + _FIRST_NODE, 256)
    return f"172.18.{high}.{low}"


def pod_address(pod: JSON, family: str = IPV4) -> str:
    """Return the address of a pod, in 10.244.0.0/16 or fd00:10:244::/48."""
    number = int(pod["metadata"]["uid"].replace("-", "")[:8], 16)
    if family == IPV6:
        return f"fd00:10:244::{number >> 16:x}:{number & 0xFFFF:x}"
    return f"10.244.{number >> 8 & 255}.{number & 255}"


# The node object that a kubelet registers, and the status that it reports.

STOPPED: Final = "devcluster/stopped"
"""The annotation that stops the kubelet of a node."""

PRESSURE: Final = "devcluster/pressure"
"""The annotation that names the pressure of a node."""


class _Pressure(Struct, frozen=True):
    """A pressure of a node: its condition, the scarce resource, and its amounts.

    The condition has a reason and a message without the pressure, and under it.
    """

    condition: str
    without: tuple[str, str]
    under: tuple[str, str]
    resource: str
    threshold: str = ""
    available: str = ""


PRESSURES: Final = {
    "memory": _Pressure(
        "MemoryPressure",
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        *("memory", "100Mi", "50Mi"),
    ),
    "disk": _Pressure(
        "DiskPressure",
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        *("ephemeral-storage", "10Gi", "5Gi"),
    ),
    "pid": _Pressure(
        "PIDPressure",
        ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
        "pids",
    ),
}
"""The pressures, by the value of the annotation."""

CAPACITY: Final = "devcluster/capacity"
"""The annotation with the resources of a node."""

REPORT_PERIOD: Final = timedelta(minutes=5)
"""The period in which a kubelet reports an unchanged status."""

_RESOURCES: Final = {
    "cpu": "8",
    "ephemeral-storage": "100Gi",
    "hugepages-1Gi": "0",
    "hugepages-2Mi": "0",
    "memory": "32Gi",
    "pods": "100k",
}
_ARCHITECTURE: Final = "amd64"
_SYSTEM: Final = "linux"
_READY: Final = ("Ready", "True", "KubeletReady", "kubelet is posting ready status")


def _node_name(number: int) -> str:
    return f"node-{number}"


def is_stopped(node: JSON) -> bool:
    """Tell whether the kubelet of a node is stopped."""
    annotations = node["metadata"].get("annotations") or {}
    return bool(annotations.get(STOPPED, "false") != "false")


def _new_node(name: str) -> JSON:
    """Return a node with the labels that kubelets give to their nodes.

    The first node has the role of a control plane, as kubeadm labels it. It has no
    taint, so that pods run on all nodes.
    """
    labels = {
        "beta.kubernetes.io/arch": _ARCHITECTURE,
        "beta.kubernetes.io/os": _SYSTEM,
        "kubernetes.io/arch": _ARCHITECTURE,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": _SYSTEM,
    }
    if name == _node_name(0):
        labels["node-role.kubernetes.io/control-plane"] = ""
    return {"metadata": {"name": name, "labels": labels}}


def _pressure_of(node: JSON) -> _Pressure | None:
    annotations = node["metadata"].get("annotations") or {}
    return PRESSURES.get(annotations.get(PRESSURE, "").strip())


def node_status(node: JSON, number: int, now: datetime) -> JSON:
    """Return the status of a node that is ready; `number` is that of the node.

    Fields of other clients stay, such as the conditions of other programs.
    """
    name, before = node["metadata"]["name"], node.get("status", {})
    resources = _resources(node)
    return {
        **before,
        "addresses": [
            {"type": "InternalIP", "address": _node_address(number)},
            {"type": "Hostname", "address": name},
        ],
        "allocatable": resources,
        "capacity": resources,
        "conditions": _conditions(
            before.get("conditions", []), format_time(now), _pressure_of(node)
        ),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": _node_info(name),
    }


def _resources(node: JSON) -> JSON:
    """Return the resources of a node; texts that are no quantities are left out.

    Resources of devices that other clients have written into its status stay.
    """
    text = (node["metadata"].get("annotations") or {}).get(CAPACITY, "")
    known = node.get("status", {}).get("capacity") or {}
    found = {
        **{name: each for name, each in known.items() if "/" in name},
        **_RESOURCES,
    }
    for part in text.split(",") if text else ():
        name, _, amount = part.strip().partition("=")
        try:
            found[name] = str(parse_quantity(amount))
        except QuantityError:
            continue
    return found


def addresses_of(node: JSON) -> tuple[str, ...]:
    """Return the internal addresses of a node."""
    return tuple(
        each["address"]
        for each in node.get("status", {}).get("addresses", ())
        if each.get("type") == "InternalIP"
    )


def _is_due(node: JSON, status: JSON, now: datetime) -> bool:
    """Tell whether a kubelet reports a status: it has changed, or it is old."""
    before = node.get("status", {})
    if _without_heartbeats(before) != _without_heartbeats(status):
        return True
    reported = [
        each.get("lastHeartbeatTime")
        for each in before["conditions"]
        if _type(each) == "Ready"
    ]
    # Another client may have written a condition without its times.
    return any(not each or now - parse_time(each) >= REPORT_PERIOD for each in reported)


def _conditions(before: list[JSON], now: str, pressure: _Pressure | None) -> list[JSON]:
    """Return the conditions of a node under `pressure`, and those of other programs."""
    named = {_type(each): each for each in before}
    reported = []
    pressures = [
        (each.condition, "True", *each.under)
        if each is pressure
        else (each.condition, "False", *each.without)
        for each in PRESSURES.values()
    ]
    for type_, status, reason, message in (*pressures, _READY):
        old = named.pop(type_, {})
        since = old.get("lastTransitionTime") if old.get("status") == status else None
        reported.append(
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": now,
                "lastTransitionTime": since or now,
            }
        )
    return [*named.values(), *reported]


def _without_heartbeats(status: JSON) -> JSON:
    conditions = [
        {**each, "lastHeartbeatTime": None} for each in status.get("conditions", ())
    ]
    return {**status, "conditions": sorted(conditions, key=_type)}


def _type(condition: JSON) -> str:
    return str(condition.get("type", ""))


@cache
def _node_info(name: str) -> JSON:
    machine = uuid.uuid5(uuid.NAMESPACE_DNS, name)
    return {
        "machineID": machine.hex,
        "systemUUID": str(machine),
        "bootID": str(uuid.uuid5(machine, "boot")),
        "kernelVersion": "6.12.0",
        "osImage": "Debian GNU/Linux 13 (trixie)",
        "containerRuntimeVersion": "containerd://2.1.4",
        "kubeletVersion": KUBERNETES_VERSION,
        # Since 1.33 kubelets leave this field empty.
        "kubeProxyVersion": "",
        "operatingSystem": _SYSTEM,
        "architecture": _ARCHITECTURE,
    }


# The heartbeats of the nodes: their leases and their statuses.

NODE_LEASES: Final = "kube-node-lease"

_PERIOD: Final = 10.0
"""Seconds between two renewals of a lease, and two checks of the status."""

_TURNS: Final = 19
"""Thousands of nodes at once would keep the API server busy for too long."""

_PAUSE: Final = 0.5
"""Seconds between two turns."""

_DURATION: Final = 40
"""Seconds for which a lease holds, as a kubelet writes them."""


class Heartbeats:
    """Registers nodes, renews their leases, and reports their status.

    A stopped kubelet does neither. A deleted node stays deleted, as on a real cluster
    until its kubelet starts again.
    """

    def __init__(
        self, objects: Objects, count: int, relieve: Callable[[str], None]
    ) -> None:
        """Take the objects of the API server, and the number of nodes.

        `relieve` is called for each node that works, once in a period.
        """
        self._relieve = relieve
        self._objects = objects
        self._clock = objects.clock
        self._numbers = {_node_name(number): number for number in range(count)}

    def register(self) -> None:
        """Create the nodes and their CSINodes."""
        for name in self._numbers:
            if not self._objects.has(NODE, "", name):
                self._objects.create(NODE, "", _new_node(name))
            self._register_driver(name)
            self._report_status(name)

    async def run(self) -> None:
        """Renew and report until cancelled; the nodes take turns within a period."""
        names = list(self._numbers)
        for name in names:
            self.beat(name)
        turns = min(len(names), _TURNS)
        while True:
            for turn in range(turns):
                await asyncio.sleep(_PAUSE)
                for name in names[turn::turns]:
                    self.beat(name)
            await asyncio.sleep(_PERIOD - turns * _PAUSE)

    def beat(self, name: str) -> None:
        """Send one heartbeat of a node, unless it is stopped, deleted or unknown."""
        if name not in self._numbers or not self._objects.has(NODE, "", name):
            return
        if is_stopped(self._objects.find(NODE, "", name).obj):
            return
        self._register_driver(name)
        self._report_status(name)
        self._relieve(name)
        try:
            self._renew(name)
        except Refusal:
            return  # the namespace ends, or a quota is full: try again next time

    def _register_driver(self, name: str) -> None:
        """Create the CSINode, unless it exists."""
        if self._objects.has(CSI_NODES, "", name):
            return
        node = self._objects.find(NODE, "", name).obj
        metadata = node["metadata"]
        annotations = {**metadata.get("annotations", {}), **node_annotations(name)}
        new = {**node, "metadata": {**metadata, "annotations": annotations}}
        self._objects.update(NODE, "", name, new)
        self._objects.create(CSI_NODES, "", csi_node(node))

    def _report_status(self, name: str) -> None:
        node = self._objects.find(NODE, "", name).obj
        now = self._clock.now()
        status = node_status(node, self._numbers[name], now)
        if _is_due(node, status, now):
            new = {"metadata": node["metadata"], "status": status}
            self._objects.update(NODE, "", name, new, "status")

    def _renew(self, name: str) -> None:
        if not self._objects.has(NAMESPACE, "", NODE_LEASES):
            return  # an API server creates it soon
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": _DURATION,
            "renewTime": format_micro_time(self._clock.now()),
        }
        if self._objects.has(LEASES, NODE_LEASES, name):
            stored = self._objects.find(LEASES, NODE_LEASES, name).obj
            renewed = {**stored, "spec": {**stored["spec"], **spec}}
            self._objects.update(LEASES, NODE_LEASES, name, renewed)
        else:
            metadata = {"name": name, "ownerReferences": [self._owner(name)]}
            lease = {"metadata": metadata, "spec": spec}
            self._objects.create(LEASES, NODE_LEASES, lease)

    def _owner(self, name: str) -> JSON:
        uid = self._objects.find(NODE, "", name).obj["metadata"]["uid"]
        return {
            "apiVersion": NODE.api_version,
            "kind": NODE.kind,
            "name": name,
            "uid": uid,
        }


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

    def __init__(self, infos: node_infos.NodeInfos) -> None:
        self._infos = infos

    def why_not(self, pod: JSON) -> Rejection | None:
        """Return why a new pod is rejected, `None` if it fits.

        A rejected pod no longer counts for other pods.
        """
        rejection = self._checked(pod)
        if rejection is not None:
            self._infos.remove_pod(key_of(pod))
        return rejection

    def _checked(self, pod: JSON) -> Rejection | None:
        node = self._infos.nodes.get(pod["spec"]["nodeName"])
        if node is None or not node.facts.allocatable:
            return None  # the resources of the node are unknown
        info = self._info_of(pod)
        if info.requests and (short := _shortage(info, node)):
            return short
        if not node_infos.affinity_fits(pod, node.facts):
            return _failed("NodeAffinity", node_infos.UNMATCHED)
        others = (each for each in node.pods.values() if each.key != info.key)
        if info.ports and any(
            node_infos.collide(info.ports, each.ports) for each in others
        ):
            return _failed("NodePorts", PORTS)
        return None

    def _info_of(self, pod: JSON) -> node_infos.PodInfo:
        """Return the facts of a pod; the scheduler has found those of most pods."""
        known = self._infos.pod(key_of(pod))
        if known is not None and known.uid == pod["metadata"]["uid"]:
            return known
        return node_infos.PodInfo.of(pod)


def _failed(predicate: str, why: str) -> Rejection:
    return Rejection(predicate, f"Predicate {predicate} failed: {why}")


def _shortage(pod: node_infos.PodInfo, node: node_infos.NodeInfo) -> Rejection | None:
    """Return the rejection of a pod by a full node; the pod may be counted already."""
    counted = node.remove(pod.key) if pod.key in node.pods else None
    try:
        return _missing(pod, node)
    finally:
        if counted is not None:
            node.add(counted)


def _missing(pod: node_infos.PodInfo, node: node_infos.NodeInfo) -> Rejection | None:
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
        pressure = _pressure_of(stored.obj) if stored is not None else None
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

    def _evict_one(self, key: Key, pressure: _Pressure) -> None:
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
