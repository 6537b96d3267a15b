"""The scheduler: binds each pod to a node that fits, or reports why none fits."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.apiserver.strategy import Deletion
from controller_manager.devcluster.csi.driver import Waiting, claims_of
from controller_manager.devcluster.kubelet.events import SCHEDULER, Reporter, normal
from controller_manager.devcluster.registry.core.cluster import NAMESPACES as NAMESPACE
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.registry.core.pods import bind
from controller_manager.devcluster.registry.scheduling import BUDGETS
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.devcluster.storage import Change, Key, key_of

from . import node_infos
from .filters import Fit, Misfit, best, prefers_nodes, repels
from .volumes import NOT_ALLOCATED, ONE_POD, Binding, DeviceClaims, VolumeBinding


class _WaitingPods(Waiting):
    """Remembers the waiting pods, their claims, and their nominated nodes."""

    def __init__(self) -> None:
        super().__init__()
        self._nominated: dict[Key, tuple[str, node_infos.PodInfo]] = {}

    def discard(self, key: Key) -> None:
        self._nominated.pop(key, None)
        super().discard(key)

    def nominate(self, key: Key, node: str, pod: node_infos.PodInfo) -> None:
        """Nominate a node for a pod that waits until its victims are gone."""
        self._nominated[key] = (node, pod)

    def kept_for(
        self, node: str, pod: node_infos.PodInfo
    ) -> Iterator[node_infos.PodInfo]:
        """Yield other pods nominated for a node, of at least the priority of `pod`."""
        for key, (name, other) in self._nominated.items():
            if name == node and key != pod.key and other.priority >= pod.priority:
                yield other


# The scheduler's message about a pod that cannot be scheduled (framework.FitError).

_NO_NODES: Final = "no nodes available to schedule pods"


def unschedulable(
    total: int, reasons: Mapping[str, int] | str, preemption: Mapping[str, int] | str
) -> str:
    """Return the message about a pod that none of `total` nodes fits.

    `reasons` has the number of nodes for each reason, or the only reason. `preemption`
    has the same for the preemption; it is empty if pods are evicted.
    """
    if not total:
        return _NO_NODES
    message = _explained(total, reasons)
    if not preemption:
        return message
    if not isinstance(preemption, str):
        preemption = _explained(total, preemption)
    return f"{message} no new claims to deallocate, preemption: {preemption}"


def _explained(total: int, reasons: Mapping[str, int] | str) -> str:
    if not isinstance(reasons, str):
        listed = sorted(f"{count} {reason}" for reason, count in reasons.items())
        reasons = ", ".join(listed)
    return f"0/{total} nodes are available: {reasons}."


# Makes room for pods by evicting pods of a lower priority
# (pkg/scheduler/framework/preemption, and its plugin defaultpreemption).

_NO_VICTIMS: Final = "No preemption victims found for incoming pod"
_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
_NEVER: Final = "not eligible due to preemptionPolicy=Never."
_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."

_REASON: Final = "PreemptionByScheduler"
_MOST_CANDIDATES: Final = 100
"""The most candidate nodes; upstream takes as many, or a tenth of all."""


class _Candidate(Struct, frozen=True):
    """A node that fits a pod once its victims are gone."""

    node: str
    victims: tuple[node_infos.PodInfo, ...]
    violations: int

    @property
    def cost(self) -> tuple[int, int, int, int]:
        """The sort key: preemption chooses the lowest one."""
        priorities = [each.priority for each in self.victims]
        return self.violations, max(priorities), sum(priorities), len(priorities)


class _Preemption:
    """Finds the pods whose eviction makes room for a pod, and evicts them."""

    def __init__(
        self, objects: Objects, infos: node_infos.NodeInfos, report: Reporter
    ) -> None:
        self._objects = objects
        self._infos = infos
        self._report = report
        self._budgets = objects.storage.collection(BUDGETS.resource)

    def ineligible(self, pod: JSON) -> str:
        """Return why a pod may evict no other now, empty if it may."""
        if pod["spec"].get("preemptionPolicy") == "Never":
            return _NEVER
        nominated = pod.get("status", {}).get("nominatedNodeName", "")
        node = self._infos.nodes.get(nominated)
        priority = pod["spec"].get("priority") or 0
        if node is not None and any(
            each.is_terminating and each.priority < priority
            for each in node.pods.values()
        ):
            return _TERMINATING
        return ""

    def find(
        self, fit: Fit, misfits: Iterable[tuple[node_infos.NodeInfo, Misfit]]
    ) -> tuple[_Candidate | None, Counter[str]]:
        """Return the best candidate, and the number of nodes for each reason.

        The reasons count only if there is no candidate.
        """
        counts = Counter[str]()
        candidates: list[_Candidate] = []
        for node, misfit in misfits:
            if not misfit.is_resolvable or len(candidates) >= _MOST_CANDIDATES:
                counts[_NOT_HELPFUL] += 1
            elif all(each >= fit.info.priority for each in node.priorities):
                counts[_NO_VICTIMS] += 1
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

    def _evict(self, pod: JSON, victim: node_infos.PodInfo, node: str) -> None:
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

    def _candidate(self, fit: Fit, node: node_infos.NodeInfo) -> _Candidate | Misfit:
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
        self, fit: Fit, node: node_infos.NodeInfo, lower: Sequence[node_infos.PodInfo]
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

    def _violating(self, pods: Iterable[node_infos.PodInfo]) -> set[tuple[str, str]]:
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


def _covers(budget: JSON, pod: node_infos.PodInfo) -> bool:
    if budget["metadata"]["namespace"] != pod.key[0]:
        return False
    selector = node_infos.compiled(budget["spec"].get("selector"))
    return not selector.is_empty and selector.matches(pod.labels)


# The scheduler: binds each pod to a node that fits, or reports why none fits.

_RETRY_DELAY: Final = 1.0
"""Seconds after which waiting pods are tried again when pods have left nodes."""

_RETRY_CHECKS: Final = 1000
_FEW_NODES: Final = 20
"""The most checks of nodes in a batch of waiting pods, and the least for a pod."""

_RETRY_PAUSE: Final = 0.01
"""Seconds between two batches: many waiting pods must not keep others waiting."""

_BIND_TIMEOUT: Final = 600.0
"""Seconds after which the scheduler gives up waiting for claims to be bound."""


class _Assumed(Struct, frozen=True):
    """The node of a pod that waits for its claims to be bound, and the start time."""

    uid: str
    node: str
    since: float
    bindings: tuple[Binding, ...]


class Scheduler:
    """Takes nodes in turn, and stops at the first that fits.

    A pod that fits no node waits. The scheduler tries it again when a node that fits
    appears, when pods leave nodes, when one of its claims changes, when the pod
    changes, and once a minute (`retry_all`). Changes of a node without effect, such as
    heartbeats, cost one comparison. The scheduler binds a pod after its claims that are
    bound on demand.
    """

    def __init__(
        self,
        objects: Objects,
        infos: node_infos.NodeInfos,
        volumes: VolumeBinding,
        report: Reporter,
    ) -> None:
        """Take the plugins for claims of pods, and the reporter of failures.

        It updates `infos` with each change of nodes and pods.
        """
        self._objects = objects
        self._pods = objects.storage.collection(POD.resource)
        self._namespaces = objects.storage.collection(NAMESPACE.resource)
        self._volumes = volumes
        self._devices = DeviceClaims(objects)
        self._plugins = (
            (volumes, frozenset((ONE_POD,))),
            (self._devices, frozenset((NOT_ALLOCATED,))),
        )
        self._report = report
        self._infos = infos
        self._preemption = _Preemption(objects, self._infos, report)
        self._order: list[str] = []
        self._next = 0
        self._waiting = _WaitingPods()
        self._assumed: dict[Key, _Assumed] = {}
        self._retry: asyncio.TimerHandle | None = None
        self._to_retry: list[Key] = []
        """The pods of this retry, the last one first."""

    def close(self) -> None:
        """Try no waiting pods again."""
        if self._retry is not None:
            self._retry.cancel()

    def node_changed(self, change: Change) -> None:
        """React to a node that is new, has changed, or is gone."""
        facts, nodes = node_infos.NodeFacts.of(change.after.obj), self._infos.nodes
        if change.type == "DELETED":
            self._infos.remove_node(facts.name)
        elif facts.name in nodes and nodes[facts.name].facts == facts:
            return
        else:
            self._infos.set_node(facts)
        if len(self._order) != len(nodes):
            self._order = list(nodes)
        if change.type == "DELETED":
            return
        for key in self._waiting:
            stored = self._pods.get(key)
            if stored is not None and not node_infos.why_not(stored.obj, facts):
                self.sync(key)

    def pod_changed(self, key: Key, pod: JSON | None) -> None:
        """React to a pod that is on a node, has ended, or is gone (`None`)."""
        self._assumed.pop(key, None)
        self._waiting.discard(key)
        if pod is None or pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
            changed = self._infos.remove_pod(key)
        else:
            node = pod["spec"]["nodeName"]
            changed = self._infos.set_pod(node_infos.PodInfo.of(pod), node)
        if changed:
            self._retry_soon()

    def _retry_soon(self) -> None:
        if self._waiting and self._retry is None:
            loop = asyncio.get_running_loop()
            self._retry = loop.call_later(_RETRY_DELAY, self._retry_waiting)

    def _retry_waiting(self) -> None:
        """Try some waiting pods again; the others wait for a moment."""
        self._retry = None
        if not self._to_retry:
            # The last pod is the next: that of the highest priority, or the oldest.
            self._to_retry = list(self._waiting)[::-1]
            self._to_retry.sort(key=self._priority)
        batch = max(1, _RETRY_CHECKS // max(len(self._infos.nodes), _FEW_NODES))
        for _ in range(min(batch, len(self._to_retry))):
            key = self._to_retry.pop()
            if key in self._waiting:
                self.sync(key)
        if self._to_retry:
            loop = asyncio.get_running_loop()
            self._retry = loop.call_later(_RETRY_PAUSE, self._retry_waiting)

    def pods_on(self, node: str) -> Sequence[Key]:
        """Return the pods on a node that have not ended."""
        info = self._infos.nodes.get(node)
        return list(info.pods) if info is not None else ()

    def claim_changed(self, key: Key) -> None:
        """React to a claim that is new, has changed, or is gone."""
        for pod in self._waiting.waiting_for(key):
            self.sync(pod)

    def retry_all(self) -> None:
        """Try all waiting pods again, so that their conditions stay true.

        Pods of the highest priority come first.
        """
        if self._retry is None:
            self._retry_waiting()

    def _priority(self, key: Key) -> int:
        stored = self._pods.get(key)
        return 0 if stored is None else stored.obj["spec"].get("priority") or 0

    def sync(self, key: Key) -> None:
        """Schedule a pod if it waits for a node."""
        stored = self._pods.get(key)
        self._waiting.discard(key)
        if stored is None or not _is_ours(stored.obj):
            self._assumed.pop(key, None)
            return
        pod = stored.obj
        if self._continue_binding(key, pod):
            return
        if self._devices.waits(pod):
            self._wait(key, pod)  # upstream does not report it either
            return
        if blocker := self._volumes.blocker(pod) or self._devices.blocker(pod):
            self._wait(key, pod)
            total = len(self._infos.nodes)
            message = unschedulable(total, blocker, {_NOT_HELPFUL: total})
            self._explain(pod, message)
            return
        kept_for = self._waiting.kept_for
        fit = Fit(pod, self._infos, self._plugins, self._labels_of, kept_for)
        node = self._find_node(fit)
        if node is None:
            self._wait(key, pod)
            self._fail(key, fit)
            return
        self._place(key, fit, node)

    def _place(self, key: Key, fit: Fit, node: node_infos.NodeInfo) -> None:
        pod = fit.pod
        bindings = self._volumes.prepare(pod, node.facts)
        self._devices.reserve(pod)
        if not bindings:
            self._bind(key, pod, fit.info, node.facts.name)
            return
        now, uid = self._objects.clock.monotonic(), pod["metadata"]["uid"]
        self._assumed[key] = _Assumed(uid, node.facts.name, now, bindings)
        self._wait(key, pod)

    def _bind(self, key: Key, pod: JSON, info: node_infos.PodInfo, node: str) -> None:
        bind(self._objects, POD, *key, node)
        self._infos.set_pod(info, node)
        self._retry_soon()
        message = f"Successfully assigned {key[0]}/{key[1]} to {node}"
        self._report.scheduler(pod, normal("Scheduled", message), "Binding")

    def _continue_binding(self, key: Key, pod: JSON) -> bool:
        """Bind a pod whose claims are bound now; return True if it has a node or waits.

        If its claims cannot be bound, it is scheduled anew.
        """
        assumed = self._assumed.get(key)
        if assumed is None or assumed.uid != pod["metadata"]["uid"]:
            return False
        if self._volumes.are_bound(assumed.bindings):
            del self._assumed[key]
            self._bind(key, pod, node_infos.PodInfo.of(pod), assumed.node)
            return True
        failure = self._volumes.failure(assumed.bindings, assumed.node)
        if self._objects.clock.monotonic() - assumed.since > _BIND_TIMEOUT:
            failure = failure or "context deadline exceeded"
        if not failure:
            self._wait(key, pod)
            return True
        del self._assumed[key]
        message = f'running PreBind plugin "VolumeBinding": binding volumes: {failure}'
        self._report.unschedulable(pod, message)
        return False

    def _wait(self, key: Key, pod: JSON) -> None:
        claims = (*claims_of(pod), *self._devices.keys_of(pod))
        self._waiting.add(key, claims)
        nominated = pod.get("status", {}).get("nominatedNodeName")
        if nominated:
            self._waiting.nominate(key, nominated, node_infos.PodInfo.of(pod))

    def _labels_of(self, namespace: str) -> Mapping[str, str]:
        stored = self._namespaces.get(("", namespace))
        labels: Mapping[str, str] = {}
        if stored is not None:
            labels = stored.obj["metadata"].get("labels") or {}
        return labels

    def _find_node(self, fit: Fit) -> node_infos.NodeInfo | None:
        """Return the node that a pod gets, `None` if none fits."""
        nominated = fit.pod.get("status", {}).get("nominatedNodeName", "")
        node = self._infos.nodes.get(nominated)
        if node is not None and fit.misfit(node) is None:
            return node
        candidates = self._candidates(fit.pod)
        if prefers_nodes(fit.pod):
            nodes = [each for each in candidates if not fit.misfit(each)]
            return best(fit, nodes, self._infos, self._labels_of) if nodes else None
        avoided = None
        for each in candidates:
            if fit.misfit(each) is None:
                if not repels(each):
                    return each
                avoided = avoided or each
        return avoided

    def _candidates(self, pod: JSON) -> Iterator[node_infos.NodeInfo]:
        nodes, named = self._infos.nodes, node_infos.named_nodes(pod)
        if named is not None:
            yield from (nodes[each] for each in sorted(named & nodes.keys()))
            return
        for _ in range(len(self._order)):
            name = self._order[self._next % len(self._order)]
            self._next += 1
            yield nodes[name]

    def _fail(self, key: Key, fit: Fit) -> None:
        """Evict pods for a pod that fits no node; return the reasons if none helps."""
        found = [(each, fit.misfit(each)) for each in self._candidates(fit.pod)]
        misfits = [(node, misfit) for node, misfit in found if misfit is not None]
        total = len(self._infos.nodes)
        reasons = Counter(reason for _, misfit in misfits for reason in misfit.reasons)
        if others := total - len(misfits):
            reasons[node_infos.OTHER_NODE] += others
        if why := self._preemption.ineligible(fit.pod):
            self._explain(fit.pod, unschedulable(total, reasons, why))
            return
        candidate, counts = self._preemption.find(fit, misfits)
        if candidate is None:
            counts[_NOT_HELPFUL] += others
            self._explain(fit.pod, unschedulable(total, reasons, +counts), nominated="")
            return
        self._preemption.evict(fit.pod, candidate)
        self._waiting.nominate(key, candidate.node, fit.info)
        message = unschedulable(total, reasons, "")
        self._explain(fit.pod, message, nominated=candidate.node)

    def _explain(self, pod: JSON, message: str, nominated: str | None = None) -> None:
        """Write the condition and the event of a pod that waits, if they are new.

        `nominated` is the node whose pods are evicted for the pod, empty for none;
        `None` keeps the present value.
        """
        status = pod.get("status", {})
        conditions = status.get("conditions", [])
        found = [each for each in conditions if each["type"] == "PodScheduled"]
        old = found[-1] if found else {}
        was = status.get("nominatedNodeName", "")
        nominated = was if nominated is None else nominated
        if old.get("message") == message and nominated == was:
            return
        since = old.get("lastTransitionTime") if old.get("status") == "False" else None
        condition = {
            "type": "PodScheduled",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": since or format_time(self._objects.clock.now()),
        }
        others = [each for each in conditions if each is not old]
        new = {**status, "conditions": [*others, condition]}
        new.pop("nominatedNodeName", None)
        if nominated:
            new["nominatedNodeName"] = nominated
        self._objects.update(POD, *key_of(pod), {**pod, "status": new}, "status")
        self._report.unschedulable(pod, message)


def _is_ours(pod: JSON) -> bool:
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", SCHEDULER) == SCHEDULER
        and "deletionTimestamp" not in pod["metadata"]
        and pod.get("status", {}).get("phase", "Pending") == "Pending"
    )
