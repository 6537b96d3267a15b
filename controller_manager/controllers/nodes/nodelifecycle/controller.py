"""The parts of the node lifecycle controller, and how they are connected.

Two of them are here: one writes the NoSchedule taints of nodes by their conditions, and
the beta labels; the other marks the pods of unreachable nodes not ready, because their
kubelets cannot.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.api.meta import labels_of
from controller_manager.api.resource import metadata_of
from controller_manager.api.times import format_time
from controller_manager.client.errors import Conflict, NotFound
from controller_manager.client.events import WARNING
from controller_manager.control.pods_by_node import PODS_BY_NODE
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import DONE, Outcome, Requeue
from controller_manager.runtime.worker import Workers

from .apply import NodeWriter
from .monitor import NodeMonitor
from .no_execute import NoExecuteTainter
from .node_health import GracePeriods
from .options import NodeLifecycleOptions
from .taints import no_schedule_taints
from .topology import Rates

_EVICTION_WORKERS: Final = 4
_FALSE: Final = "False"


def may_be_ready(pod: Pod) -> bool:
    """Tell whether a pod has the condition Ready, and it is not False."""
    return any(
        each.type == "Ready" and each.status != _FALSE
        for each in pod.status.conditions or ()
    )


class PodMarker:
    """Sets the condition Ready of the pods of unreachable nodes to False.

    The node is the key of the queue; a failure is retried. A node whose kubelet posts
    that it is not ready is not unreachable: that kubelet updates its pods. Upstream:
    MarkPodsNotReady, processPod.
    """

    def __init__(
        self, context: ControllerContext, is_unreachable: Callable[[str], bool]
    ) -> None:
        self._context = context
        self._client = context.client
        self._clock = context.server_clock
        self._recorder = context.recorder
        self._is_unreachable = is_unreachable
        self._pods = context.lister(PODS, PODS_BY_NODE)
        self._queue = context.queue("node_lifecycle_controller_pods")
        context.informers.informer(PODS).add_handler(
            Handler(
                on_add=self._bound,
                on_update=lambda _, new: self._bound(new),
                depends_on=DependsOn(
                    "spec.nodeName", reading=("status.conditions[Ready]",)
                ),
            )
        )

    def workers(self) -> Workers:
        """Return the workers, not yet running."""
        return self._context.workers(self._queue, self.sync, _EVICTION_WORKERS)

    def add(self, node: str) -> None:
        """Mark the pods of a node that has become unreachable."""
        self._queue.add(node)

    async def sync(self, node: str) -> Outcome:
        """Mark the pods of a node, as long as it is unreachable."""
        for pod in self._ready_pods(node):
            if not self._is_unreachable(node):
                return DONE
            await self._mark(pod)
        return DONE

    def _ready_pods(self, node: str) -> Iterator[Pod]:
        return filter(may_be_ready, self._pods.by_index(PODS_BY_NODE, node))

    async def _mark(self, pod: Pod) -> None:
        metadata = pod.metadata
        condition = {
            "type": "Ready",
            "status": _FALSE,
            "lastTransitionTime": format_time(self._clock.now()),
        }
        patch = {
            "metadata": {
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
            },
            "status": {"conditions": [condition]},
        }
        where = (metadata.namespace, metadata.name)
        try:
            await self._client.patch(
                metadata_of(PODS), *where, patch, subresource="status"
            )
        except NotFound:
            return
        self._recorder.event(PODS, pod, WARNING, "NodeNotReady", "Node is not ready")

    def _bound(self, pod: Pod) -> None:
        name = pod.spec.node_name
        if name and self._is_unreachable(name) and may_be_ready(pod):
            self._queue.add(name)


_BETA_OF: Final = {
    "kubernetes.io/os": "beta.kubernetes.io/os",
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
}
"""The beta label of each stable label; its value is that of the stable label."""


def labels_to_set(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the beta labels that are missing or wrong, with their right values.

    Without the stable label, the beta label is not changed. Upstream:
    reconcileNodeLabels.
    """
    return {
        beta: labels[stable]
        for stable, beta in _BETA_OF.items()
        if stable in labels and labels.get(beta) != labels[stable]
    }


_WORKERS = 8
_STALE = Requeue(0.05, "the cache does not show the last write yet")
_CONFLICT = Requeue(0.05, "the cache does not show the last change yet")
"""An immediate retry, as after other errors, would fail again."""


class NoScheduleTainter:
    """Writes the NoSchedule taints and the beta labels of one node at a time.

    One patch has both, if both change. Upstream: doNodeProcessingPassWorker, which does
    not retry a failed write until the node changes again; here it is retried.
    """

    def __init__(self, context: ControllerContext, writer: NodeWriter) -> None:
        self._context = context
        self._writer = writer
        self._queue = context.queue("node_lifecycle_controller")
        self._nodes = context.lister(NODES)
        context.informers.informer(NODES).add_handler(
            Handler(
                on_add=self._enqueue,
                on_update=lambda _, node: self._enqueue(node),
                on_delete=lambda node: writer.forget(node.metadata.name),
                depends_on=DependsOn(
                    "metadata.labels",
                    "spec.taints",
                    "spec.unschedulable",
                    "status.conditions",
                ),
            )
        )

    def workers(self) -> Workers:
        """Return the workers, not yet running."""
        queue = self._queue
        return self._context.workers(queue, self.sync, _WORKERS, self._enqueue_all)

    async def sync(self, name: str) -> Outcome:
        """Update the taints and labels of a node by its conditions."""
        node = self._nodes.by_key(name)
        if node is None:
            return DONE
        taints = no_schedule_taints(node, self._writer.timestamp())
        labels = labels_to_set(labels_of(node))
        if taints is None and not labels:
            return DONE
        if self._writer.is_stale(node):
            return _STALE
        try:
            await self._writer.set_taints_and_labels(node, taints, labels)
        except NotFound:
            return DONE
        except Conflict:
            return _CONFLICT
        return DONE

    def _enqueue(self, node: Node) -> None:
        self._queue.add(node.metadata.name)

    def _enqueue_all(self) -> Iterator[None]:
        for name in self._nodes.keys():  # noqa: SIM118 - a lister is no mapping
            self._queue.add(name)
            yield


def init_node_lifecycle_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (newNodeLifecycleController)."""
    options = context.config.of(NodeLifecycleOptions)
    grace = GracePeriods(
        startup=options.node_startup_grace_period,
        monitor=options.node_monitor_grace_period,
    )
    rates = Rates(
        normal=options.node_eviction_rate,
        secondary=options.secondary_node_eviction_rate,
        large_size=options.large_cluster_size_threshold,
        unhealthy_part=options.unhealthy_zone_threshold,
    )
    writer = NodeWriter(context)
    tainter = NoExecuteTainter(context, writer, rates.normal)
    period = context.config.generic.node_monitor_period
    monitor = NodeMonitor(context, period, grace, rates, writer, tainter)
    pods = PodMarker(context, monitor.is_unreachable)
    monitor.on_unreachable = pods.add
    tainter.renews_lease = monitor.leases.renews_lease
    return WorkerGroup(
        NoScheduleTainter(context, writer).workers(),
        pods.workers(),
        tainter.workers(),
        monitor.workers(),
    )
