"""The filter and score plugins: which nodes fit a pod, why others do not, the best."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, Protocol

from msgspec import Struct

from controller_manager.api.core.scheduling import NO_EXECUTE, NO_SCHEDULE
from controller_manager.api.json_objects import JSON
from controller_manager.control.scheduling import tolerates, untolerated

from . import node_infos

# The nodes that the topology spread constraints of a pod allow.

UNEVEN: Final = "node(s) didn't match pod topology spread constraints"
NO_LABEL: Final = f"{UNEVEN} (missing required label)"

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"


class _Spread(Struct, frozen=True):
    key: str
    max_skew: int
    counts: dict[str, int]
    least: int
    counts_itself: bool


class _TopologySpread:
    """Finds the nodes that the constraints of one pod allow."""

    def __init__(
        self,
        pod: JSON,
        infos: node_infos.NodeInfos,
        is_eligible: Callable[[JSON, node_infos.NodeInfo], bool],
        kind: str = HARD,
    ) -> None:
        """Count the pods; `is_eligible` tells whether a constraint counts a node."""
        self._spreads = [
            _counted(pod, each, infos, is_eligible)
            for each in pod["spec"].get("topologySpreadConstraints") or ()
            if each.get("whenUnsatisfiable", HARD) == kind
        ]

    def why_not(self, node: node_infos.NodeInfo) -> str:
        """Return why a node does not fit, empty if it does."""
        for each in self._spreads:
            domain = node.facts.labels.get(each.key)
            if domain is None:
                return NO_LABEL
            count = each.counts.get(domain, 0) + each.counts_itself
            if count - each.least > each.max_skew:
                return UNEVEN
        return ""

    def count(self, node: node_infos.NodeInfo) -> int:
        """Return the number of pods in the domains of a node."""
        return sum(
            each.counts.get(node.facts.labels.get(each.key, ""), 0)
            for each in self._spreads
        )


def _counted(
    pod: JSON,
    constraint: JSON,
    infos: node_infos.NodeInfos,
    is_eligible: Callable[[JSON, node_infos.NodeInfo], bool],
) -> _Spread:
    key, selector = constraint["topologyKey"], node_infos.selector_of(pod, constraint)
    metadata = pod["metadata"]
    counts: dict[str, int] = {}
    eligible = set()
    for name, node in infos.nodes.items():
        domain = node.facts.labels.get(key)
        if domain is not None and is_eligible(constraint, node):
            counts.setdefault(domain, 0)
            eligible.add(name)
    for other in infos.pods_in(metadata["namespace"]):
        found = infos.node_of(other.key)
        if found is None or found.facts.name not in eligible or other.is_terminating:
            continue
        if selector.matches(other.labels):
            counts[found.facts.labels[key]] += 1
    too_few = len(counts) < (constraint.get("minDomains") or 1)
    return _Spread(
        key,
        constraint.get("maxSkew", 1),
        counts,
        0 if too_few else min(counts.values(), default=0),
        selector.matches(metadata.get("labels") or {}),
    )


# The nodes that the affinity and the anti-affinity of pods allow.

Place = tuple[str, str]
"""A topology domain: a label that its nodes share."""

NO_AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
REPELLED: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


class _PodAffinity:
    """Finds the nodes that the terms of one pod, and those of other pods, allow."""

    def __init__(
        self,
        pod: JSON,
        infos: node_infos.NodeInfos,
        labels_of: Callable[[str], node_infos.Labels],
    ) -> None:
        """Look at the pods on nodes; `labels_of` knows those of namespaces."""
        self._pod = pod
        self._infos = infos
        self._labels_of = labels_of
        affinity = pod["spec"].get("affinity") or {}
        self._wanted = node_infos.terms_of(pod, affinity.get("podAffinity"))
        self._unwanted = node_infos.terms_of(pod, affinity.get("podAntiAffinity"))
        self._attracting = self._places_of_all(self._wanted)
        self._repelling = set[Place]()
        for term in self._unwanted:
            self._repelling |= self._places(term, self._selected([term]))
        self._taken = self._taken_by_others()
        self._is_first = not self._attracting and self._selects_itself()

    def why_not(self, labels: Mapping[str, str]) -> str:
        """Return why a node with these labels does not fit, empty if it does."""
        for term in self._wanted:
            place = (term.topology_key, labels.get(term.topology_key, ""))
            if term.topology_key not in labels:
                return NO_AFFINITY
            if place not in self._attracting and not self._is_first:
                return NO_AFFINITY
        if self._repelling and not self._repelling.isdisjoint(labels.items()):
            return ANTI_AFFINITY
        if self._taken and not self._taken.isdisjoint(labels.items()):
            return REPELLED
        return ""

    def _places_of_all(self, terms: tuple[node_infos.Term, ...]) -> set[Place]:
        pods = self._selected(terms) if terms else []
        places: set[Place] = set()
        for term in terms:
            places |= self._places(term, pods)
        return places

    def _selected(self, terms: Iterable[node_infos.Term]) -> list[node_infos.PodInfo]:
        wanted = list(terms)
        return [
            pod
            for namespace in self._infos.namespaces()
            if all(each.includes(namespace, self._labels_of) for each in wanted)
            for pod in self._infos.pods_in(namespace)
            if all(each.selector.matches(pod.labels) for each in wanted)
        ]

    def _places(
        self, term: node_infos.Term, pods: Iterable[node_infos.PodInfo]
    ) -> set[Place]:
        places = set()
        for pod in pods:
            node = self._infos.node_of(pod.key)
            if node is not None and term.topology_key in node.facts.labels:
                places.add((term.topology_key, node.facts.labels[term.topology_key]))
        return places

    def _taken_by_others(self) -> set[Place]:
        metadata = self._pod["metadata"]
        labels = metadata.get("labels") or {}
        places: set[Place] = set()
        for other in self._infos.repellent():
            for term in other.anti_affinity:
                if term.selects(metadata["namespace"], labels, self._labels_of):
                    places |= self._places(term, [other])
        return places

    def _selects_itself(self) -> bool:
        metadata = self._pod["metadata"]
        labels = metadata.get("labels") or {}
        return all(
            each.selects(metadata["namespace"], labels, self._labels_of)
            for each in self._wanted
        )


# The filter plugins of the scheduler: reasons why a node does not fit a pod.

PORTS: Final = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY: Final = "Too many pods"
_INSUFFICIENT: Final = "Insufficient "
_FIRST: Final = ("cpu", "memory", "ephemeral-storage")
"""The resources that messages name first, in this order."""

_PODS: Final = "pods"
_ONE: Final = 10**9


class Misfit(Struct, frozen=True):
    """The reasons why a node does not fit; `is_resolvable` if preemption can help."""

    reasons: tuple[str, ...]
    is_resolvable: bool = False


class Plugin(Protocol):
    """A filter plugin for the volumes or the devices of pods."""

    def why_not(self, pod: JSON, node: node_infos.NodeFacts) -> str:
        """Return why a node does not fit a pod, empty if it does."""


class Fit:
    """Finds the reasons why nodes do not fit one pod."""

    def __init__(
        self,
        pod: JSON,
        infos: node_infos.NodeInfos,
        plugins: Sequence[tuple[Plugin, frozenset[str]]],
        labels_of: Callable[[str], node_infos.Labels],
        nominated: Callable[[str, node_infos.PodInfo], Iterable[node_infos.PodInfo]],
    ) -> None:
        """Take the pod, and the nodes with their pods.

        `plugins` come with the reasons of theirs that are gone if other pods are.
        `nominated` returns the pods for which there is room to be kept on a node.
        """
        self.pod = pod
        self.info = node_infos.PodInfo.of(pod)
        self._infos = infos
        self._plugins = plugins
        self._labels_of = labels_of
        self._nominated = nominated
        self._found: dict[str, Misfit | None] = {}

    def refreshed(self) -> "Fit":
        """Return a new object for the same pod, after other pods changed."""
        return Fit(
            self.pod, self._infos, self._plugins, self._labels_of, self._nominated
        )

    def misfit(self, node: node_infos.NodeInfo) -> Misfit | None:
        """Return why a node does not fit, `None` if it does; the result is cached."""
        name = node.facts.name
        if name not in self._found:
            self._found[name] = self._misfit(node)
        return self._found[name]

    def _misfit(self, node: node_infos.NodeInfo) -> Misfit | None:
        if why := node_infos.why_not(self.pod, node.facts):
            return Misfit((why,))
        others = list(self._nominated(node.facts.name, self.info))
        if self.info.ports and any(
            each.ports and node_infos.collide(self.info.ports, each.ports)
            for each in (*node.pods.values(), *others)
        ):
            return Misfit((PORTS,), is_resolvable=True)
        if short := shortages(self.info, node, others):
            return Misfit(short, is_resolvable=self._could_have(node))
        for plugin, resolvable in self._plugins:
            if why := plugin.why_not(self.pod, node.facts):
                return Misfit((why,), is_resolvable=why in resolvable)
        if self._spread is not None and (why := self._spread.why_not(node)):
            return Misfit((why,), is_resolvable=why == UNEVEN)
        if self._affinity is not None:
            why = self._affinity.why_not(node.facts.labels)
            if why:
                return Misfit((why,), is_resolvable=why in (ANTI_AFFINITY, REPELLED))
        return None

    @cached_property
    def _spread(self) -> _TopologySpread | None:
        if not self.pod["spec"].get("topologySpreadConstraints"):
            return None
        return _TopologySpread(self.pod, self._infos, self.is_counted)

    @cached_property
    def _affinity(self) -> _PodAffinity | None:
        affinity = self.pod["spec"].get("affinity") or {}
        is_needed = affinity.get("podAffinity") or affinity.get("podAntiAffinity")
        if not is_needed and next(self._infos.repellent(), None) is None:
            return None
        return _PodAffinity(self.pod, self._infos, self._labels_of)

    def is_counted(self, constraint: JSON, node: node_infos.NodeInfo) -> bool:
        """Tell whether a topology spread constraint counts the pods on a node."""
        if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and (
            not node_infos.affinity_fits(self.pod, node.facts)
        ):
            return False
        if constraint.get("nodeTaintsPolicy", "Ignore") == "Ignore":
            return True
        tolerations = node_infos.tolerations_of(self.pod)
        effects = (NO_SCHEDULE, NO_EXECUTE)
        return untolerated(node.facts.taints, tolerations, effects) is None

    def _could_have(self, node: node_infos.NodeInfo) -> bool:
        """Tell whether a node without pods has what the pod requests."""
        allocatable = node.facts.allocatable
        return all(
            amount <= allocatable.get(name, 0)
            for name, amount in self.info.requests.items()
        )


def shortages(
    pod: node_infos.PodInfo,
    node: node_infos.NodeInfo,
    others: Sequence[node_infos.PodInfo],
) -> tuple[str, ...]:
    """Return the scarce resource of a node for one more pod besides `others`."""
    allocatable = node.facts.allocatable
    found = []
    count = len(node.pods) + len(others) + 1
    if _PODS in allocatable and count * _ONE > allocatable[_PODS]:
        found.append(TOO_MANY)
    names = [each for each in _FIRST if each in pod.requests]
    names += sorted(each for each in pod.requests if each not in _FIRST)
    for name in names:
        used = node.requested.get(name, 0)
        used += sum(each.requests.get(name, 0) for each in others)
        if pod.requests[name] > allocatable.get(name, 0) - used:
            found.append(f"{_INSUFFICIENT}{name}")
    return tuple(found)


# Chooses the best of the nodes that fit a pod (the score plugins of the scheduler).

_PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_TAINTS, _AFFINITY, _SPREAD, _POD_AFFINITY = 3, 2, 2, 2
"""The weights of the plugins in the default profile."""
_MOST: Final = 100.0


def prefers_nodes(pod: JSON) -> bool:
    """Tell whether a pod prefers some of the nodes that fit it."""
    affinity = pod["spec"].get("affinity") or {}
    return any((each or {}).get(_PREFERRED) for each in affinity.values()) or any(
        each.get("whenUnsatisfiable") == SOFT
        for each in pod["spec"].get("topologySpreadConstraints") or ()
    )


def repels(node: node_infos.NodeInfo) -> bool:
    """Tell whether the scheduler avoids a node if it can."""
    return any(each.effect == _PREFER_NO_SCHEDULE for each in node.facts.taints)


def best(
    fit: Fit,
    nodes: Sequence[node_infos.NodeInfo],
    infos: node_infos.NodeInfos,
    labels_of: Callable[[str], node_infos.Labels],
) -> node_infos.NodeInfo:
    """Return the best of several nodes that fit a pod, the first of equal ones."""
    pod = fit.pod
    scores = [0.0] * len(nodes)
    spread = _TopologySpread(pod, infos, fit.is_counted, SOFT)
    weights = _pod_weights(pod, infos, labels_of)
    scorers: tuple[tuple[int, Callable[[node_infos.NodeInfo], int]], ...] = (
        (_TAINTS, lambda node: -_untolerated(pod, node)),
        (_AFFINITY, lambda node: _node_score(pod, node)),
        (_SPREAD, lambda node: -spread.count(node)),
        (
            _POD_AFFINITY,
            lambda node: sum(weights[p] for p in node.facts.labels.items()),
        ),
    )
    for weight, score in scorers:
        for number, value in enumerate(_normalized([score(each) for each in nodes])):
            scores[number] += weight * value
    return nodes[max(range(len(nodes)), key=lambda number: scores[number])]


def _normalized(values: Sequence[int]) -> Sequence[float]:
    low, high = min(values), max(values)
    if low == high:
        return [0.0] * len(values)
    return [_MOST * (each - low) / (high - low) for each in values]


def _untolerated(pod: JSON, node: node_infos.NodeInfo) -> int:
    tolerations = node_infos.tolerations_of(pod)
    return sum(
        taint.effect == _PREFER_NO_SCHEDULE
        and not any(tolerates(each, taint) for each in tolerations)
        for taint in node.facts.taints
    )


def _node_score(pod: JSON, node: node_infos.NodeInfo) -> int:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return sum(
        each.get("weight", 0)
        for each in affinity.get(_PREFERRED) or ()
        if node_infos.matches_preference(each.get("preference") or {}, node.facts)
    )


def _pod_weights(
    pod: JSON,
    infos: node_infos.NodeInfos,
    labels_of: Callable[[str], node_infos.Labels],
) -> Counter[Place]:
    """Return the weights with which the pods on nodes attract or repel a pod."""
    affinity = pod["spec"].get("affinity") or {}
    weights: Counter[Place] = Counter()
    for sign, name in ((1, "podAffinity"), (-1, "podAntiAffinity")):
        for term in node_infos.preferences_of(pod, affinity.get(name)):
            key = term.topology_key
            for namespace in infos.namespaces():
                for other in infos.pods_in(namespace):
                    node = infos.node_of(other.key)
                    if (
                        node is not None
                        and key in node.facts.labels
                        and term.selects(namespace, other.labels, labels_of)
                    ):
                        weights[key, node.facts.labels[key]] += sign * term.weight
    return weights
