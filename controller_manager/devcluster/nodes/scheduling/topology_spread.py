"""The nodes that the topology spread constraints of a pod allow.

Upstream: pkg/scheduler/framework/plugins/podtopologyspread.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.api.selectors import Selector

from .affinity_terms import selector_of
from .node_infos import NodeInfo, NodeInfos

UNEVEN: Final = "node(s) didn't match pod topology spread constraints"
NO_LABEL: Final = f"{UNEVEN} (missing required label)"

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"


class _Spread(Struct, frozen=True):
    """A constraint, and the number of pods in each domain."""

    key: str
    max_skew: int
    counts: dict[str, int]
    least: int
    counts_itself: bool


class TopologySpread:
    """Finds the nodes that the constraints of one pod allow."""

    def __init__(
        self,
        pod: JSON,
        infos: NodeInfos,
        is_eligible: Callable[[JSON, NodeInfo], bool],
        kind: str = HARD,
    ) -> None:
        """Count the pods; `is_eligible` tells whether a constraint counts a node."""
        self._spreads = [
            _counted(pod, each, infos, is_eligible)
            for each in pod["spec"].get("topologySpreadConstraints") or ()
            if each.get("whenUnsatisfiable", HARD) == kind
        ]

    def why_not(self, node: NodeInfo) -> str:
        """Return why a node does not fit, empty if it does."""
        for each in self._spreads:
            domain = node.facts.labels.get(each.key)
            if domain is None:
                return NO_LABEL
            count = each.counts.get(domain, 0) + each.counts_itself
            if count - each.least > each.max_skew:
                return UNEVEN
        return ""

    def count(self, node: NodeInfo) -> int:
        """Return the number of pods in the domains of a node."""
        return sum(
            each.counts.get(node.facts.labels.get(each.key, ""), 0)
            for each in self._spreads
        )


def _counted(
    pod: JSON,
    constraint: JSON,
    infos: NodeInfos,
    is_eligible: Callable[[JSON, NodeInfo], bool],
) -> _Spread:
    key, selector = constraint["topologyKey"], selector_of(pod, constraint)
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
        _selects(selector, metadata),
    )


def _selects(selector: Selector, metadata: JSON) -> bool:
    return selector.matches(metadata.get("labels") or {})
