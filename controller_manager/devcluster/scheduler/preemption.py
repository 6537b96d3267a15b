"""Makes room for pods by evicting pods of a lower priority.

Upstream: pkg/scheduler/framework/preemption, and its plugin defaultpreemption.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.apiserver.strategy import Deletion
from controller_manager.devcluster.kubelet.events import Reporter, normal
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.registry.policy import BUDGETS
from controller_manager.devcluster.scheme.statuses import Refusal

from .filters import Fit, Misfit
from .node_infos import NodeInfo, NodeInfos, PodInfo, compiled

NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NEVER: Final = "not eligible due to preemptionPolicy=Never."
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."

_REASON: Final = "PreemptionByScheduler"
_MOST_CANDIDATES: Final = 100
"""The most candidate nodes; upstream takes as many, or a tenth of all."""


class _Candidate(Struct, frozen=True):
    """A node that fits a pod once its victims are gone."""

    node: str
    victims: tuple[PodInfo, ...]
    violations: int

    @property
    def cost(self) -> tuple[int, int, int, int]:
        """The sort key: preemption chooses the lowest one."""
        priorities = [each.priority for each in self.victims]
        return self.violations, max(priorities), sum(priorities), len(priorities)


class Preemption:
    """Finds the pods whose eviction makes room for a pod, and evicts them."""

    def __init__(self, objects: Objects, infos: NodeInfos, report: Reporter) -> None:
        self._objects = objects
        self._infos = infos
        self._report = report
        self._budgets = objects.storage.collection(BUDGETS.resource)

    def ineligible(self, pod: JSON) -> str:
        """Return why a pod may evict no other now, empty if it may."""
        if pod["spec"].get("preemptionPolicy") == "Never":
            return NEVER
        nominated = pod.get("status", {}).get("nominatedNodeName", "")
        node = self._infos.nodes.get(nominated)
        priority = pod["spec"].get("priority") or 0
        if node is not None and any(
            each.is_terminating and each.priority < priority
            for each in node.pods.values()
        ):
            return TERMINATING
        return ""

    def find(
        self, fit: Fit, misfits: Iterable[tuple[NodeInfo, Misfit]]
    ) -> tuple[_Candidate | None, Counter[str]]:
        """Return the best candidate, and the number of nodes for each reason.

        The reasons count only if there is no candidate.
        """
        counts = Counter[str]()
        candidates: list[_Candidate] = []
        for node, misfit in misfits:
            if not misfit.is_resolvable or len(candidates) >= _MOST_CANDIDATES:
                counts[NOT_HELPFUL] += 1
            elif all(each >= fit.info.priority for each in node.priorities):
                counts[NO_VICTIMS] += 1
            else:
                found = self._candidate(fit, node)
                if isinstance(found, _Candidate):
                    candidates.append(found)
                else:
                    counts.update(found.reasons)
        return min(candidates, key=lambda each: each.cost, default=None), counts

    def evict(self, pod: JSON, candidate: _Candidate) -> None:
        """Evict the victims, and name the preempting pod."""
        for victim in candidate.victims:
            if victim.is_terminating or not self._objects.has(POD, *victim.key):
                continue
            self._evict(pod, victim, candidate.node)

    def _evict(self, pod: JSON, victim: PodInfo, node: str) -> None:
        stored = self._objects.find(POD, *victim.key).obj
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": _REASON,
            "message": (
                f"{pod['spec'].get('schedulerName', '')}: preempting to accommodate a "
                "higher priority pod"
            ),
            "lastTransitionTime": format_time(self._objects.clock.now()),
            "observedGeneration": stored["metadata"].get("generation", 1),
        }
        status = stored.get("status", {})
        others = [
            each
            for each in status.get("conditions", ())
            if each["type"] != "DisruptionTarget"
        ]
        told = {**stored, "status": {**status, "conditions": [*others, condition]}}
        message = f"Preempted by pod {pod['metadata']['uid']} on node {node}"
        try:
            self._objects.update(POD, *victim.key, told, "status")
            self._objects.delete(POD, *victim.key, Deletion(uid=victim.uid))
        except Refusal:
            return  # the victim has changed; the pod is tried again
        self._report.scheduler(stored, normal("Preempted", message), "Preempting", pod)

    def _candidate(self, fit: Fit, node: NodeInfo) -> _Candidate | Misfit:
        """Return the victims on a node, or why the pod does not fit without them."""
        name = node.facts.name
        lower = [
            each for each in node.pods.values() if each.priority < fit.info.priority
        ]
        for each in lower:
            self._infos.remove_pod(each.key)
        try:
            if misfit := fit.refreshed().misfit(node):
                return misfit
            return self._reprieved(fit, node, lower)
        finally:
            for each in lower:
                self._infos.set_pod(each, name)

    def _reprieved(
        self, fit: Fit, node: NodeInfo, lower: Sequence[PodInfo]
    ) -> _Candidate:
        violating = self._violating(lower)
        ordered = sorted(
            lower,
            key=lambda each: (each.key not in violating, -each.priority, each.created),
        )
        victims = []
        for each in ordered:
            self._infos.set_pod(each, node.facts.name)
            if fit.refreshed().misfit(node) is not None:
                self._infos.remove_pod(each.key)
                victims.append(each)
        violations = sum(each.key in violating for each in victims)
        return _Candidate(node.facts.name, tuple(victims), violations)

    def _violating(self, pods: Iterable[PodInfo]) -> set[tuple[str, str]]:
        budgets = [each.obj for each in self._budgets]
        if not budgets:
            return set()
        left = [each.get("status", {}).get("disruptionsAllowed", 0) for each in budgets]
        found = set()
        for pod in pods:
            for number, budget in enumerate(budgets):
                if _covers(budget, pod):
                    left[number] -= 1
                    if left[number] < 0:
                        found.add(pod.key)
        return found


def _covers(budget: JSON, pod: PodInfo) -> bool:
    if budget["metadata"]["namespace"] != pod.key[0]:
        return False
    selector = compiled(budget["spec"].get("selector"))
    return not selector.is_empty and selector.matches(pod.labels)
