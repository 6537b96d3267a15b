"""The filter plugins of the scheduler: reasons why a node does not fit a pod."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Final, Protocol

from msgspec import Struct

from controller_manager.api.core.scheduling import NO_EXECUTE, NO_SCHEDULE
from controller_manager.api.json_objects import JSON
from controller_manager.control.scheduling import untolerated

from .affinity_terms import Labels
from .node_infos import NodeInfo, NodeInfos, PodInfo, collide
from .pod_affinity import ANTI_AFFINITY, REPELLED, PodAffinity
from .predicates import NodeFacts, affinity_fits, tolerations_of, why_not
from .topology_spread import UNEVEN, TopologySpread

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

    def why_not(self, pod: JSON, node: NodeFacts) -> str:
        """Return why a node does not fit a pod, empty if it does."""


class Fit:
    """Finds the reasons why nodes do not fit one pod."""

    def __init__(
        self,
        pod: JSON,
        infos: NodeInfos,
        plugins: Sequence[tuple[Plugin, frozenset[str]]],
        labels_of: Callable[[str], Labels],
        nominated: Callable[[str, PodInfo], Iterable[PodInfo]],
    ) -> None:
        """Take the pod, and the nodes with their pods.

        `plugins` come with the reasons of theirs that are gone if other pods are.
        `nominated` returns the pods for which there is room to be kept on a node.
        """
        self.pod = pod
        self.info = PodInfo.of(pod)
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

    def misfit(self, node: NodeInfo) -> Misfit | None:
        """Return why a node does not fit, `None` if it does; the result is cached."""
        name = node.facts.name
        if name not in self._found:
            self._found[name] = self._misfit(node)
        return self._found[name]

    def _misfit(self, node: NodeInfo) -> Misfit | None:
        if why := why_not(self.pod, node.facts):
            return Misfit((why,))
        others = list(self._nominated(node.facts.name, self.info))
        if self.info.ports and self._collides(node, others):
            return Misfit((PORTS,), is_resolvable=True)
        if short := shortages(self.info, node, others):
            return Misfit(short, is_resolvable=self._could_have(node))
        for plugin, resolvable in self._plugins:
            if why := plugin.why_not(self.pod, node.facts):
                return Misfit((why,), is_resolvable=why in resolvable)
        return self._misplaced(node)

    def _misplaced(self, node: NodeInfo) -> Misfit | None:
        """Return why other pods keep this one from a node."""
        if self._spread is not None and (why := self._spread.why_not(node)):
            return Misfit((why,), is_resolvable=why == UNEVEN)
        if self._affinity is not None:
            why = self._affinity.why_not(node.facts.labels)
            if why:
                return Misfit((why,), is_resolvable=why in (ANTI_AFFINITY, REPELLED))
        return None

    @cached_property
    def _spread(self) -> TopologySpread | None:
        if not self.pod["spec"].get("topologySpreadConstraints"):
            return None
        return TopologySpread(self.pod, self._infos, self.is_counted)

    @cached_property
    def _affinity(self) -> PodAffinity | None:
        affinity = self.pod["spec"].get("affinity") or {}
        is_needed = affinity.get("podAffinity") or affinity.get("podAntiAffinity")
        if not is_needed and next(self._infos.repellent(), None) is None:
            return None
        return PodAffinity(self.pod, self._infos, self._labels_of)

    def is_counted(self, constraint: JSON, node: NodeInfo) -> bool:
        """Tell whether a topology spread constraint counts the pods on a node."""
        if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and (
            not affinity_fits(self.pod, node.facts)
        ):
            return False
        if constraint.get("nodeTaintsPolicy", "Ignore") == "Ignore":
            return True
        tolerations = tolerations_of(self.pod)
        effects = (NO_SCHEDULE, NO_EXECUTE)
        return untolerated(node.facts.taints, tolerations, effects) is None

    def _collides(self, node: NodeInfo, others: Iterable[PodInfo]) -> bool:
        return any(
            each.ports and collide(self.info.ports, each.ports)
            for each in (*node.pods.values(), *others)
        )

    def _could_have(self, node: NodeInfo) -> bool:
        """Tell whether a node without pods has what the pod requests."""
        allocatable = node.facts.allocatable
        return all(
            amount <= allocatable.get(name, 0)
            for name, amount in self.info.requests.items()
        )


def shortages(
    pod: PodInfo, node: NodeInfo, others: Sequence[PodInfo]
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
