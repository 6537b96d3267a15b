"""The scheduler: binds each pod to a node that fits it, or says why none does."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.times import format_time
from controller_manager.devcluster.kinds.core.pod import KIND as POD
from controller_manager.devcluster.kinds.core.pod_binding import bind
from controller_manager.devcluster.nodes.devices import DeviceAllocation
from controller_manager.devcluster.nodes.predicates import (
    OTHER_NODE,
    NodeFacts,
    named_nodes,
    why_not,
)
from controller_manager.devcluster.nodes.reports import SCHEDULER, Reporter
from controller_manager.devcluster.nodes.unschedulable import unschedulable
from controller_manager.devcluster.nodes.volumes.binding import Binding, VolumeBinding
from controller_manager.devcluster.nodes.volumes.pod_claims import claims_of
from controller_manager.devcluster.server.objects import Objects
from controller_manager.devcluster.server.storage import Change, Key

JSON = dict[str, Any]

_BIND_TIMEOUT: Final = 600.0
"""Seconds after which the scheduler gives up waiting for claims to be bound."""


class _Assumed(Struct, frozen=True):
    """The node of a pod that waits for its claims to be bound, and since when."""

    uid: str
    node: str
    since: float
    bindings: tuple[Binding, ...]


class Scheduler:
    """Takes nodes in turn, and stops at the first that fits.

    A pod that no node fits waits. It is tried again when a node that fits it appears,
    when one of its claims changes, when it changes itself, and once a minute
    (`retry_all`). Changes of a node that do not matter, such as heartbeats, cost one
    comparison. A pod with claims that are bound only on demand is bound after them.
    """

    def __init__(
        self, objects: Objects, volumes: VolumeBinding, report: Reporter
    ) -> None:
        """Take what looks at the claims of pods, and what reports failures."""
        self._objects = objects
        self._pods = objects.storage.collection(POD.resource)
        self._volumes = volumes
        self._devices = DeviceAllocation(objects)
        self._report = report
        self._nodes: dict[str, NodeFacts] = {}
        self._order: list[str] = []
        self._next = 0
        self._waiting: dict[Key, tuple[Key, ...]] = {}
        """The claims of each waiting pod."""
        self._waiting_for: dict[Key, set[Key]] = {}
        """The waiting pods, by each of their claims."""
        self._assumed: dict[Key, _Assumed] = {}

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
        self._assumed.pop(key, None)
        self._stop_waiting(key)

    def _stop_waiting(self, key: Key) -> None:
        for claim in self._waiting.pop(key, ()):
            pods = self._waiting_for.get(claim, set())
            pods.discard(key)
            if not pods:
                self._waiting_for.pop(claim, None)

    def sync(self, key: Key) -> None:
        """Schedule a pod if it waits for a node."""
        stored = self._pods.get(key)
        self._stop_waiting(key)
        if stored is None or not _is_ours(stored.obj):
            self._assumed.pop(key, None)
            return
        pod = stored.obj
        if self._continue_binding(key, pod):
            return
        if self._devices.waits(pod):
            self._wait(key, pod)  # upstream says nothing of it either
            return
        blocker = self._volumes.blocker(pod) or self._devices.blocker(pod)
        node = "" if blocker else self._find_node(pod)
        if not node:
            self._wait(key, pod)
            self._explain(pod, self._message(pod, blocker))
            return
        bindings = self._volumes.prepare(pod, self._nodes[node])
        self._devices.reserve(pod, self._nodes[node])
        if not bindings:
            bind(self._objects, POD, *key, node)
            return
        now, uid = self._objects.clock.monotonic(), pod["metadata"]["uid"]
        self._assumed[key] = _Assumed(uid, node, now, bindings)
        self._wait(key, pod)

    def _continue_binding(self, key: Key, pod: JSON) -> bool:
        """Bind a pod whose claims are bound now; tell whether it has a node, or waits.

        If its claims cannot be bound, it is scheduled anew.
        """
        assumed = self._assumed.get(key)
        if assumed is None or assumed.uid != pod["metadata"]["uid"]:
            return False
        if self._volumes.are_bound(assumed.bindings):
            del self._assumed[key]
            bind(self._objects, POD, *key, assumed.node)
            return True
        failure = self._volumes.failure(assumed.bindings, assumed.node)
        if self._objects.clock.monotonic() - assumed.since > _BIND_TIMEOUT:
            failure = failure or "context deadline exceeded"
        if not failure:
            self._wait(key, pod)
            return True
        del self._assumed[key]
        message = f'running PreBind plugin "VolumeBinding": binding volumes: {failure}'
        self._report.scheduler(pod, message)
        return False

    def _wait(self, key: Key, pod: JSON) -> None:
        claims = (*claims_of(pod), *self._devices.keys_of(pod))
        self._waiting[key] = claims
        for claim in claims:
            self._waiting_for.setdefault(claim, set()).add(key)

    def _find_node(self, pod: JSON) -> str:
        """Return the next node that fits, empty if none does."""
        if self._volumes.conflict(pod):
            return ""
        for name in self._candidates(pod):
            if not self._why_not(pod, name):
                return name
        return ""

    def _why_not(self, pod: JSON, name: str) -> str:
        """Return why a node does not fit a pod, empty if it does."""
        facts = self._nodes[name]
        return (
            why_not(pod, facts)
            or self._volumes.why_not(pod, facts)
            or self._devices.why_not(pod, facts)
        )

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
        """Return why a pod cannot be scheduled."""
        counts = Counter[str]() if blocker else self._reasons(pod)
        return unschedulable(len(self._nodes), blocker, counts)

    def _reasons(self, pod: JSON) -> Counter[str]:
        """Return from how many nodes each reason keeps a pod."""
        if conflict := self._volumes.conflict(pod):
            return Counter({conflict: len(self._nodes)})
        candidates = list(self._candidates(pod))
        counts = Counter(self._why_not(pod, name) for name in candidates)
        if others := len(self._nodes) - len(candidates):
            counts[OTHER_NODE] += others
        return counts

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
