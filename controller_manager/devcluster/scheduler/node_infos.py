"""The scheduler's cache of nodes and of the pods on them.

Upstream: framework.NodeInfo in pkg/scheduler, and its cache.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity
from controller_manager.control.quota.pods import pod_requests
from controller_manager.devcluster.storage import Key

from .predicates import NodeFacts, Term, terms_of

Amounts = Mapping[str, int]
"""Amounts of resources, in billionths of their units."""

Port = tuple[str, str, int]
"""Address, protocol and number of a port of a node."""

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - how pods spell it


class PodInfo(Struct, frozen=True):
    """The facts about a pod that the scheduler uses."""

    key: Key
    uid: str
    labels: Mapping[str, str]
    requests: Amounts
    ports: frozenset[Port]
    priority: int
    created: str
    is_terminating: bool
    anti_affinity: tuple[Term, ...]
    """The terms of its required anti-affinity, which keep other pods away."""

    @classmethod
    def of(cls, pod: JSON) -> "PodInfo":
        """Return the facts of a pod object."""
        metadata, spec = pod["metadata"], pod["spec"]
        affinity = (spec.get("affinity") or {}).get("podAntiAffinity")
        return cls(
            (metadata["namespace"], metadata["name"]),
            metadata["uid"],
            metadata.get("labels") or {},
            requests_of(pod),
            ports_of(spec),
            spec.get("priority") or 0,
            metadata["creationTimestamp"],
            "deletionTimestamp" in metadata,
            terms_of(pod, affinity) if affinity else (),
        )

    def is_other_for_pods(self, pod: "PodInfo") -> bool:
        """Tell whether other pods may fit beside `pod` that did not beside this one."""
        return self.labels != pod.labels or self.requests != pod.requests


class NodeInfo:
    """A node, the pods on it, and the sum of their requests."""

    def __init__(self, facts: NodeFacts) -> None:
        self.facts = facts
        self.pods: dict[Key, PodInfo] = {}
        self.requested: dict[str, int] = {}
        self.priorities: Counter[int] = Counter()
        """The number of pods of each priority."""

    def add(self, pod: PodInfo) -> None:
        """Count a pod."""
        self.pods[pod.key] = pod
        self.priorities[pod.priority] += 1
        for name, amount in pod.requests.items():
            self.requested[name] = self.requested.get(name, 0) + amount

    def remove(self, key: Key) -> PodInfo:
        """Stop counting a pod."""
        pod = self.pods.pop(key)
        self.priorities[pod.priority] -= 1
        if not self.priorities[pod.priority]:
            del self.priorities[pod.priority]
        for name, amount in pod.requests.items():
            self.requested[name] -= amount
        return pod


class NodeInfos:
    """All nodes, and the pods on them by node and by namespace."""

    def __init__(self) -> None:
        """Begin without nodes."""
        self.nodes: dict[str, NodeInfo] = {}
        self._node_of: dict[Key, str] = {}
        self._lost: dict[str, NodeInfo] = {}
        """Nodes with pods that are deleted, or not known yet."""
        self._by_namespace: dict[str, dict[Key, PodInfo]] = {}
        self._repellent: dict[Key, PodInfo] = {}
        """The pods that keep others away."""

    def set_node(self, facts: NodeFacts) -> None:
        """Take a node that is new or has changed."""
        info = self.nodes.get(facts.name)
        if info is None:
            info = self._lost.pop(facts.name, None) or NodeInfo(facts)
            self.nodes[facts.name] = info
        info.facts = facts

    def remove_node(self, name: str) -> None:
        """Forget a node; its pods may come back with it."""
        info = self.nodes.pop(name, None)
        if info is not None and info.pods:
            self._lost[name] = info

    def set_pod(self, pod: PodInfo, node: str) -> bool:
        """Take a pod that is on a node; tell whether other pods may fit now."""
        old = self.pod(pod.key)
        is_there = old is not None and self._node_of[pod.key] == node
        if is_there and old == pod:
            return False
        self.remove_pod(pod.key)
        info = self.nodes.get(node)
        if info is None:
            unknown = NodeFacts(node, {}, (), unschedulable=False)
            info = self._lost.setdefault(node, NodeInfo(unknown))
        info.add(pod)
        self._node_of[pod.key] = node
        self._by_namespace.setdefault(pod.key[0], {})[pod.key] = pod
        if pod.anti_affinity:
            self._repellent[pod.key] = pod
        return not is_there or old is None or old.is_other_for_pods(pod)

    def remove_pod(self, key: Key) -> bool:
        """Forget a pod that is gone or has ended; tell whether it was known."""
        node = self._node_of.pop(key, None)
        if node is None:
            return False
        info = self.nodes.get(node) or self._lost[node]
        info.remove(key)
        if not info.pods:
            self._lost.pop(node, None)
        pods = self._by_namespace[key[0]]
        del pods[key]
        if not pods:
            del self._by_namespace[key[0]]
        self._repellent.pop(key, None)
        return True

    def pod(self, key: Key) -> PodInfo | None:
        """Return a pod that is on a node."""
        return self._by_namespace.get(key[0], {}).get(key)

    def node_of(self, key: Key) -> NodeInfo | None:
        """Return the node that a pod is on, if it exists."""
        return self.nodes.get(self._node_of.get(key, ""))

    def namespaces(self) -> Iterator[str]:
        """Yield the namespaces in which there are pods on nodes."""
        yield from self._by_namespace

    def pods_in(self, namespace: str) -> Iterator[PodInfo]:
        """Yield the pods of a namespace that are on nodes."""
        yield from self._by_namespace.get(namespace, {}).values()

    def repellent(self) -> Iterator[PodInfo]:
        """Yield the pods that keep others away."""
        yield from self._repellent.values()


def requests_of(pod: JSON) -> Amounts:
    """Return the requests of a pod.

    Most pods are simple: it adds up their containers and skips the rest.
    """
    spec = pod["spec"]
    if spec.get("initContainers") or spec.get("overhead") or spec.get("resources"):
        requests = pod_requests(msgspec.convert(pod, Pod, strict=False))
        return {name: each.nanos for name, each in requests.items() if each.nanos}
    total: dict[str, int] = {}
    for container in spec["containers"]:
        requested = (container.get("resources") or {}).get("requests") or {}
        for name, text in requested.items():
            if amount := _amount(str(text)):
                total[name] = total.get(name, 0) + amount
    return total


@lru_cache(4096)
def _amount(text: str) -> int:
    return parse_quantity(text).nanos


def ports_of(spec: JSON) -> frozenset[Port]:
    """Return the ports of its node that a pod uses."""
    return frozenset(
        (
            port.get("hostIP") or _ANY_ADDRESS,
            port.get("protocol", "TCP"),
            port["hostPort"],
        )
        for container in spec["containers"]
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def collide(wanted: frozenset[Port], used: frozenset[Port]) -> bool:
    """Tell whether two pods cannot have their ports on one node."""
    return any(
        protocol == other_protocol
        and number == other_number
        and (address == other or _ANY_ADDRESS in (address, other))
        for address, protocol, number in wanted
        for other, other_protocol, other_number in used
    )
