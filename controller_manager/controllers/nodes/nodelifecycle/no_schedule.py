"""Writes the NoSchedule taints of nodes by their conditions, and the beta labels."""

from collections.abc import Iterator, Mapping
from typing import Final

from controller_manager.api.core.v1 import NODES, Node
from controller_manager.api.meta import labels_of
from controller_manager.client.errors import Conflict, NotFound
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, Requeue
from controller_manager.runtime.worker import Workers

from .apply import NodeWriter
from .taints import no_schedule_taints

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
