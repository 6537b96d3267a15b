"""Marks the pods of unreachable nodes not ready, because their kubelets cannot."""

from collections.abc import Callable, Iterator
from typing import Final

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.resource import metadata_of
from controller_manager.api.times import format_time
from controller_manager.client.errors import NotFound
from controller_manager.client.events import WARNING
from controller_manager.control.pods_by_node import PODS_BY_NODE
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.worker import Workers

_WORKERS: Final = 4
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
        return self._context.workers(self._queue, self.sync, _WORKERS)

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
