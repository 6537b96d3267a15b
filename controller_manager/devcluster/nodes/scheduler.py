"""The scheduler: binds each pod to a node that fits it, or says why none does."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from controller_manager.api.times import format_time
from controller_manager.devcluster.kinds.core.pod import KIND as POD
from controller_manager.devcluster.kinds.core.pod_binding import bind
from controller_manager.devcluster.nodes.claims import ClaimBinder, claims_of
from controller_manager.devcluster.nodes.predicates import (
    OTHER_NODE,
    NodeFacts,
    named_nodes,
    why_not,
)
from controller_manager.devcluster.nodes.reports import SCHEDULER, Reporter
from controller_manager.devcluster.server.objects import Objects
from controller_manager.devcluster.server.storage import Change, Key

JSON = dict[str, Any]

_NO_NODES: Final = "no nodes available to schedule pods"


class Scheduler:
    """Takes nodes in turn, and stops at the first that fits.

    A pod that no node fits waits. It is tried again when a node that fits it appears,
    when one of its claims changes, when it changes itself, and once a minute
    (`retry_all`). Changes of a node that do not matter, such as heartbeats, cost one
    comparison.
    """

    def __init__(self, objects: Objects, claims: ClaimBinder, report: Reporter) -> None:
        """Take what binds the claims of pods, and what reports failures."""
        self._objects = objects
        self._pods = objects.storage.collection(POD.resource)
        self._claims = claims
        self._report = report
        self._nodes: dict[str, NodeFacts] = {}
        self._order: list[str] = []
        self._next = 0
        self._waiting: dict[Key, None] = {}
        self._waiting_for: dict[Key, set[Key]] = {}
        """The waiting pods, by each of their claims."""

    def node_changed(self, change: Change) -> None:
        """React to a node that is new, has changed, or is gone."""
        facts = NodeFacts.of(change.after.obj)
        if change.type == "DELETED":
            del self._nodes[facts.name]
        elif self._nodes.get(facts.name) == facts:
            return
        else:
            self._nodes[facts.name] = facts
        if len(self._order) != len(self._nodes):
            self._order = list(self._nodes)
        if change.type == "DELETED":
            return
        for key in list(self._waiting):
            stored = self._pods.get(key)
            if stored is not None and not why_not(stored.obj, facts):
                self.sync(key)

    def claim_changed(self, key: Key) -> None:
        """React to a claim that is new, has changed, or is gone."""
        for pod in list(self._waiting_for.get(key, ())):
            self.sync(pod)

    def retry_all(self) -> None:
        """Try all waiting pods again, so that what is reported of them stays true."""
        for key in list(self._waiting):
            self.sync(key)

    def forget(self, key: Key) -> None:
        """Stop waiting for a pod that is gone or has a node."""
        if key not in self._waiting:
            return
        del self._waiting[key]
        for claim, pods in list(self._waiting_for.items()):
            pods.discard(key)
            if not pods:
                del self._waiting_for[claim]

    def sync(self, key: Key) -> None:
        """Schedule a pod if it waits for a node."""
        stored = self._pods.get(key)
        self.forget(key)
        if stored is None or not _is_ours(stored.obj):
            return
        pod = stored.obj
        blocker = self._claims.blocker(pod)
        node = "" if blocker else self._find_node(pod)
        if node:
            self._claims.provide(pod, node)
            bind(self._objects, POD, *key, node)
            return
        self._waiting[key] = None
        for claim in claims_of(pod):
            self._waiting_for.setdefault(claim, set()).add(key)
        self._explain(pod, self._message(pod, blocker))

    def _find_node(self, pod: JSON) -> str:
        """Return the next node that fits, empty if none does."""
        for name in self._candidates(pod):
            if not why_not(pod, self._nodes[name]):
                return name
        return ""

    def _candidates(self, pod: JSON) -> Iterator[str]:
        named = named_nodes(pod)
        if named is not None:
            yield from sorted(named & self._nodes.keys())
            return
        for _ in range(len(self._order)):
            name = self._order[self._next % len(self._order)]
            self._next += 1
            yield name

    def _message(self, pod: JSON, blocker: str) -> str:
        """Return why a pod cannot be scheduled, in the scheduler's words."""
        total = len(self._nodes)
        if not total:
            return _NO_NODES
        reasons = blocker or ", ".join(self._reasons(pod))
        return (
            f"0/{total} nodes are available: {reasons}. no new claims to deallocate, "
            f"preemption: 0/{total} nodes are available: {total} Preemption is not "
            "helpful for scheduling."
        )

    def _reasons(self, pod: JSON) -> list[str]:
        candidates = list(self._candidates(pod))
        counts = Counter(why_not(pod, self._nodes[name]) for name in candidates)
        if others := len(self._nodes) - len(candidates):
            counts[OTHER_NODE] += others
        return sorted(f"{count} {reason}" for reason, count in counts.items())

    def _explain(self, pod: JSON, message: str) -> None:
        """Write the condition and the event of a pod that waits, unless they stand."""
        status = pod.get("status", {})
        conditions = status.get("conditions", [])
        old: JSON = {}
        for each in conditions:
            if each["type"] == "PodScheduled":
                old = each
        if old.get("message") == message:
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": old.get("lastTransitionTime")
            or format_time(self._objects.clock.now()),
        }
        others = [each for each in conditions if each is not old]
        new = {**pod, "status": {**status, "conditions": [*others, condition]}}
        metadata = pod["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        self._objects.update(POD, namespace, name, new, "status")
        self._report.scheduler(pod, message)


def _is_ours(pod: JSON) -> bool:
    """Tell whether a pod waits for a node, and for this scheduler to find it."""
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", SCHEDULER) == SCHEDULER
        and "deletionTimestamp" not in pod["metadata"]
        and pod.get("status", {}).get("phase", "Pending") == "Pending"
    )
