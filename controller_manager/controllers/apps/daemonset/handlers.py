"""Finds the daemon sets that a changed node concerns (syncNodeUpdate)."""

from collections.abc import Callable, Iterator
from typing import Final

from controller_manager.api.apps.v1 import DAEMON_SETS, DaemonSet
from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.api.meta import key_of
from controller_manager.api.owners import controller_of
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.indexes import Index
from controller_manager.informers.lister import Lister
from controller_manager.informers.store import Store
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.worker import Workers
from controller_manager.workqueue.queue import WorkQueue

from .nodes import Fit
from .tracker import CompiledTemplate, TemplateTracker


class ChangeLog:
    """Names of changed nodes, in the order of their last change.

    A reader stores the `position` up to which it has read. So it reads each change
    once.
    """

    def __init__(self) -> None:
        """Begin without any change."""
        self.position = 0
        """The number of the last change."""

        self._numbers: dict[str, int] = {}

    def note(self, name: str) -> None:
        """Add a change of a node; drop earlier changes of the same node."""
        self.position += 1
        self._numbers.pop(name, None)
        self._numbers[name] = self.position

    def settle(self, name: str) -> None:
        """Drop a node whose current state every reader has seen."""
        self._numbers.pop(name, None)

    def since(self, position: int) -> Iterator[str]:
        """Yield the nodes that changed after a position, the newest change first."""
        for name, number in reversed(self._numbers.items()):
            if number <= position:
                return
            yield name


def _node_of(pod: Pod) -> tuple[str, ...]:
    reference = controller_of(pod)
    if not pod.spec.node_name or reference is None:
        return ()
    return (pod.spec.node_name,) if reference.kind == DAEMON_SETS.kind else ()


DAEMON_PODS_BY_NODE: Final = Index(
    "daemonPodNode",
    _node_of,
    depends_on=DependsOn("spec.nodeName", "metadata.ownerReferences"),
)
"""The pods of daemon sets, by the node that they run on."""


class NodeHandlers:
    """Adds the keys of the daemon sets whose fit a changed node changes.

    Only labels and taints of a node count, so a heartbeat costs one comparison.
    Upstream compares a node with the pods on it instead. It does not notice that a
    daemon set needs one pod fewer, or that a node is gone.

    The workers of this class may be late, because hundreds of nodes may come back at
    once. So a sync first compares its daemon set with the nodes in their queue.
    """

    def __init__(
        self,
        context: ControllerContext,
        daemon_sets: Lister[DaemonSet],
        templates: TemplateTracker,
        queue: WorkQueue,
    ) -> None:
        self._daemon_sets = daemon_sets
        self._templates = templates
        self._queue = queue
        self._context = context
        self._changed = context.queue("daemonset-node-updates")
        self._waiting = ChangeLog()
        self._added_or_deleted: set[str] = set()
        """Nodes in the queue that were added or deleted."""
        self._leads = False
        self.nodes: Lister[Node] = context.lister(NODES)
        self._pods: Store[Pod] = context.informers.informer(PODS).store
        self._pods.add_index(DAEMON_PODS_BY_NODE)

    def handler(self) -> Handler[Node]:
        """Return the handler of nodes."""
        return Handler(
            on_add=self._note_presence,
            on_update=lambda _, new: self._note_update(new),
            on_delete=self._note_presence,
            depends_on=DependsOn("metadata.labels", "spec.taints"),
        )

    def start(self) -> None:
        """Process changes from now on; now all daemon sets are synced anyway."""
        self._leads = True

    def fits(self, compiled: CompiledTemplate) -> dict[str, Fit]:
        """Return the fit of each cached node for a daemon set, as a copy."""
        for name in self._waiting.since(compiled.seen_changes):
            compiled.has_changed(name, self.nodes.get("", name))
        compiled.seen_changes = self._waiting.position
        return compiled.fits(self.nodes.all)

    def fit_function(self, compiled: CompiledTemplate) -> Callable[[str], Fit | None]:
        """Return the function that computes the fit of a cached node by its name."""
        return lambda name: compiled.fit_of(self.nodes.get("", name))

    def workers(self, count: int) -> Workers:
        """Return the workers that process changed nodes; they do not run yet."""
        return self._context.workers(self._changed, self.sync_node, count)

    def _note_update(self, node: Node) -> None:
        if self._leads:
            self._add(node.metadata.name)

    def _note_presence(self, node: Node) -> None:
        if self._leads:
            self._added_or_deleted.add(node.metadata.name)
            self._add(node.metadata.name)

    def _add(self, name: str) -> None:
        self._waiting.note(name)
        self._changed.add(name)

    async def sync_node(self, name: str) -> Outcome:
        """Add the keys of all daemon sets that the change of a node affects."""
        for key in self._affected_keys(name):
            self._queue.add(key)
        self._waiting.settle(name)  # no other task has run since the comparison
        return DONE

    def _affected_keys(self, name: str) -> Iterator[str]:
        node = self.nodes.get("", name)
        for daemon_set in self._daemon_sets.all():
            if self._templates.of(daemon_set).has_changed(name, node):
                yield key_of(daemon_set)
        if name in self._added_or_deleted:
            self._added_or_deleted.discard(name)
            yield from self._keys_of_pods_on(name)

    def _keys_of_pods_on(self, name: str) -> Iterator[str]:
        for pod in self._pods.by_index(DAEMON_PODS_BY_NODE, name):
            daemon_set = self._daemon_sets.controller_of(pod)
            if daemon_set is not None:
                yield key_of(daemon_set)
