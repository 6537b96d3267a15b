"""Finds the daemon sets that a changed node concerns (syncNodeUpdate)."""

from collections.abc import Callable, Iterator
from typing import Final

from controller_manager.api.apps.v1 import DAEMON_SETS, DaemonSet
from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.api.meta import key_of
from controller_manager.api.owners import controller_of
from controller_manager.controllers.apps.daemonset.placement import Fit, Placement
from controller_manager.informers.indexes import Index
from controller_manager.informers.informer import Handler
from controller_manager.informers.lister import Lister
from controller_manager.informers.store import Store
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.worker import Workers
from controller_manager.workqueue.queue import WorkQueue


def _node_of(pod: Pod) -> tuple[str, ...]:
    reference = controller_of(pod)
    if not pod.spec.node_name or reference is None:
        return ()
    return (pod.spec.node_name,) if reference.kind == DAEMON_SETS.kind else ()


def _has_same_node(old: Pod, new: Pod) -> bool:
    return (
        old.spec.node_name == new.spec.node_name
        and old.metadata.owner_references == new.metadata.owner_references
    )


DAEMON_PODS_BY_NODE: Final = Index("daemonPodNode", _node_of, _has_same_node)
"""The pods of daemon sets, by the node that they run on."""


class NodeChanges:
    """Adds the keys of daemon sets to which a changed node is something else now.

    Only labels and taints of a node count, so a heartbeat costs one comparison. A node
    waits in a queue with its state before the first change that was not looked at yet.
    Upstream compares a node with the pods on it instead: it does not notice that a
    daemon set wants one pod less, or that a node is gone.
    """

    def __init__(
        self,
        context: ControllerContext,
        daemon_sets: Lister[DaemonSet],
        placement: Callable[[DaemonSet], Placement],
        queue: WorkQueue,
    ) -> None:
        """Take the daemon sets, their placement, and the queue of their keys."""
        self._daemon_sets = daemon_sets
        self._placement = placement
        self._queue = queue
        self._context = context
        self._changed = context.queue("daemonset-node-updates")
        self._before: dict[str, Node | None] = {}
        """The former state of each node in the queue; `None` if it did not exist."""
        self._leads = False
        self.nodes: Lister[Node] = context.lister(NODES)
        self._pods: Store[Pod] = context.informers.informer(PODS).store
        self._pods.add_index(DAEMON_PODS_BY_NODE)
        context.informers.informer(NODES).add_handler(
            Handler(
                on_add=lambda node: self._note(node.metadata.name, None),
                on_update=self._updated,
                on_delete=lambda node: self._note(node.metadata.name, node),
            )
        )

    def start(self) -> None:
        """Look at changes from now on; all daemon sets are synced now anyway."""
        self._leads = True

    def workers(self, count: int) -> Workers:
        """Return the workers that look at changed nodes, not yet running."""
        return self._context.workers(self._changed, self.sync_node, count)

    def _updated(self, old: Node, new: Node) -> None:
        if (
            old.metadata.labels != new.metadata.labels
            or old.spec.taints != new.spec.taints
        ):
            self._note(new.metadata.name, old)

    def _note(self, name: str, before: Node | None) -> None:
        if self._leads:
            self._before.setdefault(name, before)
            self._changed.add(name)

    async def sync_node(self, name: str) -> Outcome:
        """Add the keys of all daemon sets that the change of a node concerns."""
        if name in self._before:
            before, after = self._before.pop(name), self.nodes.get("", name)
            for key in self._concerned(name, before, after):
                self._queue.add(key)
        return DONE

    def _concerned(
        self, name: str, before: Node | None, after: Node | None
    ) -> Iterator[str]:
        if before is None or after is None:
            yield from self._with_pod_on(name)
        for daemon_set in self._daemon_sets.all():
            placement = self._placement(daemon_set)
            if _fit(placement, before) is not _fit(placement, after):
                yield key_of(daemon_set)

    def _with_pod_on(self, name: str) -> Iterator[str]:
        for pod in self._pods.by_index(DAEMON_PODS_BY_NODE, name):
            daemon_set = self._daemon_sets.controller_of(pod)
            if daemon_set is not None:
                yield key_of(daemon_set)


def _fit(placement: Placement, node: Node | None) -> Fit:
    return Fit.NONE if node is None else placement.fit(node)
