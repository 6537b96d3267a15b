"""Evicts pods because of taints of their nodes (taint_eviction.go)."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.api.meta import key_of
from controller_manager.control.expectations import live
from controller_manager.control.gates import COMPARISON_OPERATORS
from controller_manager.control.pod_evictor import EvictionMetrics, PodEvictor
from controller_manager.control.pod_indexes import PODS_BY_NODE
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import DONE, Done, Outcome, Requeue

from .evictions import Eviction, is_back, no_execute, plan, used_tolerations


class TaintEvictionMetrics(EvictionMetrics):
    """The ``taint_eviction_controller_*`` metrics."""

    prefix = "taint_eviction_controller"


_MESSAGE: Final = "Taint manager: deleting due to NoExecute taint"
_CANCELLING: Final = "Cancelling deletion of Pod "
_WORKERS: Final = 50
"""The number of concurrent evictions: a slow webhook must not stop the others."""
_LONGEST_WAIT: Final = 86400.0
"""The longest time in seconds until a pod is checked again."""
_SHORTEST_WAIT: Final = 0.001
"""The shortest time in seconds: a timer is not more precise."""
_RECOVERY: Final = 30.0
"""Seconds in which a node that is ready again loses the taints of an unhealthy node."""
_LOSES_TAINTS: Final = 5.0
"""Seconds until a pod of such a node is checked again."""
_STALE: Final = 1.0
"""Seconds until a pod is checked again if the cache of its node is old."""


def init_taint_eviction_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (tainteviction.New)."""
    controller = TaintEviction(context)
    return WorkerGroup(
        context.workers(controller.pod_queue, controller.sync_pod, _WORKERS),
        context.workers(
            controller.node_queue, controller.sync_node, 1, controller.enqueue_tainted
        ),
    )


class TaintEviction:
    """Plans, cancels and carries out evictions.

    A key is a pod. Times are monotonic, and count from the moment when this process
    sees the taints, so never too early.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        texts = ("DeletionByTaintManager", _MESSAGE, "TaintManagerEviction")
        self._evictor = PodEvictor(context, *texts, observes_generation=True)
        self._metrics = context.metrics.of(TaintEvictionMetrics)
        gates = context.config.features
        self._compares_numbers = gates.is_enabled(COMPARISON_OPERATORS)
        self._nodes = context.lister(NODES)
        self._pods = context.lister(PODS, PODS_BY_NODE)
        self.node_queue = context.queue("noexec_taint_node")
        self.pod_queue = context.queue("noexec_taint_pod")
        self._evictions: dict[str, Eviction] = {}
        context.informers.informer(NODES).add_handler(
            Handler(
                on_add=self._node_added,
                on_update=self._node_updated,
                depends_on=DependsOn("spec.taints"),
            )
        )
        context.informers.informer(PODS).add_handler(
            Handler(
                on_add=self._pod_changed,
                on_update=lambda _, new: self._pod_changed(new),
                on_delete=self._pod_deleted,
                depends_on=DependsOn("spec.tolerations", "spec.nodeName"),
            )
        )

    # Changes that concern nodes and pods.

    def enqueue_tainted(self) -> Iterator[None]:
        """Add the tainted nodes, when this process begins to lead."""
        for node in self._nodes.all():
            if no_execute(node.spec.taints):
                self.node_queue.add(node.metadata.name)
            yield

    def _node_added(self, node: Node) -> None:
        if self._evictions or no_execute(node.spec.taints):
            self.node_queue.add(node.metadata.name)

    def _node_updated(self, old: Node, new: Node) -> None:
        if no_execute(old.spec.taints) != no_execute(new.spec.taints):
            self.node_queue.add(new.metadata.name)

    def _pod_changed(self, pod: Pod) -> None:
        node = self._nodes.by_key(pod.spec.node_name)
        key = key_of(pod)
        if key in self._evictions or (node and no_execute(node.spec.taints)):
            self.pod_queue.add(key)

    def _pod_deleted(self, pod: Pod) -> None:
        if (key := key_of(pod)) in self._evictions:
            self.pod_queue.add(key)

    # Evictions.

    async def sync_node(self, name: str) -> Outcome:
        """Enqueue the pods of a node whose taints have changed."""
        node = self._nodes.by_key(name)
        if node is None:
            return DONE  # as upstream: planned evictions stay planned
        is_tainted = bool(no_execute(node.spec.taints))
        for pod in self._pods.by_index(PODS_BY_NODE, name):
            key = key_of(pod)
            if is_tainted or key in self._evictions:
                self.pod_queue.add(key)
        return DONE

    async def sync_pod(self, key: str) -> Outcome:
        """Plan, cancel or carry out the eviction of a pod."""
        pod = self._pods.by_key(key)
        planned = self._evictions.get(key)
        if planned is not None and (pod is None or pod.metadata.uid != planned.uid):
            self._cancel(key)
            planned = None
        if pod is None or self._is_evicted(key, pod, planned):
            return DONE
        node = self._nodes.by_key(pod.spec.node_name)
        now = self._clock.monotonic()
        eviction = planned if node is None else self._plan(pod, node, planned, now)
        if eviction is None:
            self._cancel(key)
            return DONE
        self._evictions[key] = eviction
        if (requeue_after := eviction.due - now) > 0:
            return Done(min(max(requeue_after, _SHORTEST_WAIT), _LONGEST_WAIT))
        if planned is not None and planned.due > now:
            self._evictor.announce(key, eviction.uid, _CANCELLING + key)
        return await self._evict(key, pod, node, eviction)

    def _plan(
        self, pod: Pod, node: Node, planned: Eviction | None, now: float
    ) -> Eviction | None:
        taints = no_execute(node.spec.taints)
        used = used_tolerations(
            taints, pod.spec.tolerations, compares_numbers=self._compares_numbers
        )
        return plan(planned, pod.metadata.uid, taints, used, now)

    def _is_evicted(self, key: str, pod: Pod, planned: Eviction | None) -> bool:
        """Tell whether a pod was evicted, perhaps by a request without a response."""
        if planned is not None and planned.is_done:
            return True
        if not self._evictor.has_evicted(pod):
            return False
        if planned is not None:
            self._evictions[key] = replace(planned, is_done=True)
        return True

    async def _evict(
        self, key: str, pod: Pod, node: Node | None, eviction: Eviction
    ) -> Outcome:
        if node is not None and (requeue := await self._must_wait(node, eviction.due)):
            return requeue
        if not eviction.is_announced:
            message = f"Marking for deletion Pod {key}"
            self._evictor.announce(key, eviction.uid, message)
            eviction = replace(eviction, is_announced=True)
            self._evictions[key] = eviction
        wanted = pod.spec.tolerations
        if await self._evictor.evict(pod, lambda it: it.spec.tolerations == wanted):
            self._metrics.deleted(self._clock.monotonic() - eviction.due)
        if self._pods.by_key(key) is None:
            self._evictions.pop(key, None)
        else:  # until the cache shows the deletion
            self._evictions[key] = replace(eviction, is_done=True)
        return DONE

    async def _must_wait(self, node: Node, due: float) -> Requeue | None:
        """Return `None` if the node has the same taints at the API server.

        The process may have been paused, and its watch may be silent. A node that is
        ready again has some time to lose its taints.
        """
        stored = await live(self._client, NODES, "", node.metadata.name)
        if stored is None:
            return None
        if is_back(stored) and self._clock.monotonic() - due < _RECOVERY:
            return Requeue(_LOSES_TAINTS, "the node is ready again")
        if no_execute(stored.spec.taints) != no_execute(node.spec.taints):
            return Requeue(_STALE, "the cache shows old taints of the node")
        return None

    def _cancel(self, key: str) -> None:
        """Forget an eviction; record an event that cancels it, unless it was done."""
        eviction = self._evictions.pop(key, None)
        if eviction is not None and not (eviction.is_done or eviction.is_silent):
            self._evictor.announce(key, eviction.uid, _CANCELLING + key)
