"""The cache of nodes and their pods, and the predicates about both."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from controller_manager.api import selectors
from controller_manager.api.core.scheduling import (
    NO_EXECUTE,
    NO_SCHEDULE,
    Taint,
    Toleration,
)
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity
from controller_manager.control.quota.pods import pod_requests
from controller_manager.control.scheduling import untolerated
from controller_manager.devcluster.storage import Key, key_of

# The terms by which pods attract or repel others (PodAffinityTerm).

Labels = Mapping[str, str]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class Term(Struct, frozen=True):
    """The pods that a term selects, and its topology key.

    Its pods are in `namespaces`, and in those that `namespace_selector` selects.
    """

    topology_key: str
    selector: selectors.Selector
    namespaces: frozenset[str]
    namespace_selector: selectors.Selector
    weight: int = 0

    def selects(
        self, namespace: str, labels: Labels, labels_of: Callable[[str], Labels]
    ) -> bool:
        """Tell whether the term is about a pod; `labels_of` knows the namespaces."""
        if not self.selector.matches(labels):
            return False
        return self.includes(namespace, labels_of)

    def includes(self, namespace: str, labels_of: Callable[[str], Labels]) -> bool:
        """Tell whether the term is about pods of a namespace."""
        if namespace in self.namespaces:
            return True
        selector = self.namespace_selector
        return not selector.nothing and selector.matches(labels_of(namespace))


def terms_of(pod: JSON, affinity: JSON | None) -> tuple[Term, ...]:
    """Return the required terms of a pod's affinity or anti-affinity."""
    return tuple(_term(pod, each, 0) for each in (affinity or {}).get(_REQUIRED) or ())


def preferences_of(pod: JSON, affinity: JSON | None) -> tuple[Term, ...]:
    """Return the preferred terms of a pod's affinity or anti-affinity."""
    return tuple(
        _term(pod, each.get("podAffinityTerm") or {}, each.get("weight", 0))
        for each in (affinity or {}).get(_PREFERRED) or ()
    )


def _term(pod: JSON, term: JSON, weight: int) -> Term:
    namespaces = frozenset(term.get("namespaces") or ())
    selector = term.get("namespaceSelector")
    if not namespaces and selector is None:
        namespaces = frozenset((pod["metadata"]["namespace"],))
    return Term(
        term.get("topologyKey", ""),
        selector_of(pod, term),
        namespaces,
        compiled(selector),
        weight,
    )


def selector_of(pod: JSON, term: JSON) -> selectors.Selector:
    """Return the selector of a term, with the labels that it takes from its pod."""
    selector = compiled(term.get("labelSelector"))
    labels = pod["metadata"].get("labels") or {}
    more = [
        selectors.Requirement(key, operator, frozenset((labels[key],)))
        for field, operator in (
            ("matchLabelKeys", "In"),
            ("mismatchLabelKeys", "NotIn"),
        )
        for key in term.get(field) or ()
        if key in labels
    ]
    if not more:
        return selector
    requirements = (*selector.requirements, *more)
    return msgspec.structs.replace(selector, requirements=requirements)


def compiled(selector: JSON | None) -> selectors.Selector:
    """Return the evaluable form of a selector; a wrong one selects nothing."""
    if selector is None:
        return selectors.NOTHING
    try:
        return selectors.compile_selector(
            msgspec.convert(selector, selectors.LabelSelector)
        )
    except (selectors.SelectorError, msgspec.ValidationError):
        return selectors.NOTHING


# Predicates: nodes that fit a pod, and reasons of the others (filter plugins).

UNSCHEDULABLE: Final = "node(s) were unschedulable"
TAINTED: Final = "node(s) had untolerated taint(s)"
UNMATCHED: Final = "node(s) didn't match Pod's node affinity/selector"
OTHER_NODE: Final = "node(s) didn't satisfy plugin(s) [NodeAffinity]"

_CORDONED: Final = Taint("node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
_EFFECTS: Final = (NO_SCHEDULE, NO_EXECUTE)


class NodeFacts(Struct, frozen=True):
    """The facts about a node for the scheduler; equal values fit the same pods."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Mapping[str, int] = {}
    """The allocatable resources, in billionths of the units."""

    @classmethod
    def of(cls, node: JSON) -> "NodeFacts":
        """Return the facts of a node object."""
        metadata, spec = node["metadata"], node.get("spec", {})
        return cls(
            metadata["name"],
            metadata.get("labels", {}),
            msgspec.convert(spec.get("taints") or [], tuple[Taint, ...]),
            bool(spec.get("unschedulable")),
            _amounts(node.get("status", {}).get("allocatable") or {}),
        )


def _amounts(quantities: JSON) -> Mapping[str, int]:
    return {name: parse_quantity(str(text)).nanos for name, text in quantities.items()}


def why_not(pod: JSON, node: NodeFacts) -> str:
    """Return why a node does not fit a pod, empty if it does.

    The reason is the first one in the order of the scheduler's plugins.
    """
    spec = pod["spec"]
    if not node.taints and not node.unschedulable:
        return "" if _matches_affinity(spec, node) else UNMATCHED
    tolerations = tolerations_of(pod)
    if node.unschedulable and untolerated([_CORDONED], tolerations, _EFFECTS):
        return UNSCHEDULABLE
    if untolerated(node.taints, tolerations, _EFFECTS):
        return TAINTED
    if not _matches_affinity(spec, node):
        return UNMATCHED
    return ""


def named_nodes(pod: JSON) -> frozenset[str] | None:
    """Return the only nodes that the affinity allows by name, `None` for any.

    Daemon pods are bound to their nodes that way.
    """
    terms = _terms(pod["spec"])
    if not terms:
        return None
    found: set[str] = set()
    for term in terms:
        names = _names(term)
        if names is None:
            return None
        found |= names
    return frozenset(found)


def _names(term: JSON) -> set[str] | None:
    """Return the node names that one term allows, `None` if it names none."""
    found: set[str] | None = None
    for each in term.get("matchFields", ()):
        if each.get("key") == "metadata.name" and each.get("operator") == "In":
            values = set(each.get("values", ()))
            found = values if found is None else found & values
    return found


def _matches_affinity(spec: JSON, node: NodeFacts) -> bool:
    selector = spec.get("nodeSelector", {})
    if any(node.labels.get(key) != value for key, value in selector.items()):
        return False
    terms = _terms(spec)
    return terms is None or matches_terms(terms, node)


def matches_terms(terms: Iterable[JSON], node: NodeFacts) -> bool:
    """Tell whether a node matches one of several terms (NodeSelector)."""
    return any(_matches_term(term, node) for term in terms)


def _terms(spec: JSON) -> list[JSON] | None:
    """Return the terms of the required node affinity, `None` without one."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required.get("nodeSelectorTerms", [])


def _matches_term(term: JSON, node: NodeFacts) -> bool:
    """Tell whether a node matches one term; an empty term matches no node."""
    expressions, fields = term.get("matchExpressions"), term.get("matchFields")
    if not expressions and not fields:
        return False
    return all(_matches(each, node.labels) for each in expressions or ()) and all(
        _matches(each, {"metadata.name": node.name}) for each in fields or ()
    )


def _matches(expression: JSON, values: Mapping[str, str]) -> bool:
    """Tell whether a requirement holds; an invalid requirement never holds."""
    requirement = selectors.Requirement(
        expression.get("key", ""),
        expression.get("operator", ""),
        frozenset(expression.get("values", ())),
    )
    try:
        return requirement.matches(values)
    except (KeyError, ValueError):  # an unknown operator, or a bound that is no number
        return False


def affinity_fits(pod: JSON, node: NodeFacts) -> bool:
    """Tell whether the selector and the affinity of a pod allow a node."""
    return _matches_affinity(pod["spec"], node)


def tolerations_of(pod: JSON) -> tuple[Toleration, ...]:
    """Return the tolerations of a pod."""
    return msgspec.convert(pod["spec"].get("tolerations") or [], tuple[Toleration, ...])


def matches_preference(term: JSON, node: NodeFacts) -> bool:
    """Tell whether a node matches a preferred term; an empty one matches all."""
    return not term or _matches_term(term, node)


# The scheduler's cache of nodes and of the pods on them.

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
            key_of(pod),
            metadata["uid"],
            metadata.get("labels") or {},
            _requests_of(pod),
            _ports_of(spec),
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


def _requests_of(pod: JSON) -> Amounts:
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


def _ports_of(spec: JSON) -> frozenset[Port]:
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
