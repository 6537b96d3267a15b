"""The nodes that the affinity and the anti-affinity of pods allow.

Upstream: pkg/scheduler/framework/plugins/interpodaffinity.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from controller_manager.api.json_objects import JSON

from .affinity_terms import Labels, Term, terms_of
from .node_infos import NodeInfos, PodInfo

Place = tuple[str, str]
"""A topology domain: a label that its nodes share."""

NO_AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
REPELLED: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


class PodAffinity:
    """Finds the nodes that the terms of one pod, and those of other pods, allow."""

    def __init__(
        self,
        pod: JSON,
        infos: NodeInfos,
        labels_of: Callable[[str], Labels],
    ) -> None:
        """Look at the pods on nodes; `labels_of` knows those of namespaces."""
        self._pod = pod
        self._infos = infos
        self._labels_of = labels_of
        affinity = pod["spec"].get("affinity") or {}
        self._wanted = terms_of(pod, affinity.get("podAffinity"))
        self._unwanted = terms_of(pod, affinity.get("podAntiAffinity"))
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

    def _places_of_all(self, terms: tuple[Term, ...]) -> set[Place]:
        """Return the domains of the pods that all terms select."""
        pods = self._selected(terms) if terms else []
        places: set[Place] = set()
        for term in terms:
            places |= self._places(term, pods)
        return places

    def _selected(self, terms: Iterable[Term]) -> list[PodInfo]:
        """Return the pods that each of several terms selects."""
        wanted = list(terms)
        return [
            pod
            for namespace in self._infos.namespaces()
            if all(each.includes(namespace, self._labels_of) for each in wanted)
            for pod in self._infos.pods_in(namespace)
            if all(each.selector.matches(pod.labels) for each in wanted)
        ]

    def _places(self, term: Term, pods: Iterable[PodInfo]) -> set[Place]:
        places = set()
        for pod in pods:
            node = self._infos.node_of(pod.key)
            if node is not None and term.topology_key in node.facts.labels:
                places.add((term.topology_key, node.facts.labels[term.topology_key]))
        return places

    def _taken_by_others(self) -> set[Place]:
        """Return the domains that other pods forbid for this pod."""
        metadata = self._pod["metadata"]
        labels = metadata.get("labels") or {}
        places: set[Place] = set()
        for other in self._infos.repellent():
            for term in other.anti_affinity:
                if term.selects(metadata["namespace"], labels, self._labels_of):
                    places |= self._places(term, [other])
        return places

    def _selects_itself(self) -> bool:
        """Tell whether the first pod of a group may start it."""
        metadata = self._pod["metadata"]
        labels = metadata.get("labels") or {}
        return all(
            each.selects(metadata["namespace"], labels, self._labels_of)
            for each in self._wanted
        )
