"""Chooses the best of the nodes that fit a pod (the score plugins of the scheduler).

Most pods have no preferences: they get the next node that fits.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.control.scheduling import tolerates

from .filters import SOFT, Fit, TopologySpread
from .node_infos import NodeInfo, NodeInfos
from .predicates import Labels, Term, matches_preference, preferences_of, tolerations_of

_PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_TAINTS, _AFFINITY, _SPREAD, _PODS = 3, 2, 2, 2
"""The weights of the plugins in the default profile."""
_MOST: Final = 100.0


def prefers_nodes(pod: JSON) -> bool:
    """Tell whether a pod prefers some of the nodes that fit it."""
    affinity = pod["spec"].get("affinity") or {}
    return any((each or {}).get(_PREFERRED) for each in affinity.values()) or any(
        each.get("whenUnsatisfiable") == SOFT
        for each in pod["spec"].get("topologySpreadConstraints") or ()
    )


def repels(node: NodeInfo) -> bool:
    """Tell whether the scheduler avoids a node if it can."""
    return any(each.effect == _PREFER_NO_SCHEDULE for each in node.facts.taints)


def best(
    fit: Fit,
    nodes: Sequence[NodeInfo],
    infos: NodeInfos,
    labels_of: Callable[[str], Labels],
) -> NodeInfo:
    """Return the best of several nodes that fit a pod, the first of equal ones."""
    pod = fit.pod
    scores = [0.0] * len(nodes)
    spread = TopologySpread(pod, infos, fit.is_counted, SOFT)
    pods = _PodScores(pod, infos, labels_of)
    for weight, values in (
        (_TAINTS, [-float(_untolerated(pod, each)) for each in nodes]),
        (_AFFINITY, [float(_node_score(pod, each)) for each in nodes]),
        (_SPREAD, [-float(spread.count(each)) for each in nodes]),
        (_PODS, [float(pods.score(each)) for each in nodes]),
    ):
        for number, value in enumerate(_normalized(values)):
            scores[number] += weight * value
    return nodes[max(range(len(nodes)), key=lambda number: scores[number])]


def _normalized(values: Sequence[float]) -> Sequence[float]:
    """Return values from 0 to 100."""
    low, high = min(values), max(values)
    if low == high:
        return [0.0] * len(values)
    return [_MOST * (each - low) / (high - low) for each in values]


def _untolerated(pod: JSON, node: NodeInfo) -> int:
    tolerations = tolerations_of(pod)
    return sum(
        taint.effect == _PREFER_NO_SCHEDULE
        and not any(tolerates(each, taint) for each in tolerations)
        for taint in node.facts.taints
    )


def _node_score(pod: JSON, node: NodeInfo) -> int:
    """Return the weights of the preferred node affinity that a node satisfies."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return sum(
        each.get("weight", 0)
        for each in affinity.get(_PREFERRED) or ()
        if matches_preference(each.get("preference") or {}, node.facts)
    )


class _PodScores:
    """The weights with which the pods on nodes attract or repel a pod."""

    def __init__(
        self, pod: JSON, infos: NodeInfos, labels_of: Callable[[str], Labels]
    ) -> None:
        affinity = pod["spec"].get("affinity") or {}
        self._weights: dict[tuple[str, str], int] = {}
        for sign, name in ((1, "podAffinity"), (-1, "podAntiAffinity")):
            for term in preferences_of(pod, affinity.get(name)):
                self._count(term, sign, infos, labels_of)

    def _count(
        self,
        term: Term,
        sign: int,
        infos: NodeInfos,
        labels_of: Callable[[str], Labels],
    ) -> None:
        for namespace in infos.namespaces():
            for pod in infos.pods_in(namespace):
                node = infos.node_of(pod.key)
                if node is None or not term.selects(namespace, pod.labels, labels_of):
                    continue
                value = node.facts.labels.get(term.topology_key)
                if value is not None:
                    place = (term.topology_key, value)
                    weight = self._weights.get(place, 0) + sign * term.weight
                    self._weights[place] = weight

    def score(self, node: NodeInfo) -> int:
        """Return the weights of the pods in the domains of a node."""
        labels: Mapping[str, str] = node.facts.labels
        return sum(
            weight
            for (key, value), weight in self._weights.items()
            if labels.get(key) == value
        )
