"""The nodes that a daemon set needs, and the daemon sets that a node concerns.

Upstream: NodeShouldRunDaemonPod, GetTargetNodeName and syncNodeUpdate.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from enum import IntEnum
from functools import cached_property
from typing import Final

import msgspec
from msgspec import Raw, Struct

from controller_manager.api.apps.v1 import DAEMON_SETS, ControllerRevision, DaemonSet
from controller_manager.api.core import scheduling
from controller_manager.api.core.v1 import NODES, PODS, Node, Pod, PodTemplateSpec
from controller_manager.api.meta import controller_of, key_of
from controller_manager.control.controller_history import find_equal, template_data
from controller_manager.control.scheduling import (
    RequiredNodes,
    required_nodes,
    untolerated,
)
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.store import Index, Lister, Store
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.worker import Workers
from controller_manager.workqueue.queue import WorkQueue

from .pod_template import with_default_tolerations


class Fit(IntEnum):
    """The fit of a node: whether a pod of the daemon set may or must run there."""

    NONE = 0
    """No pod may run there; a pod that runs there is deleted."""

    KEEP = 1
    """A pod that runs there stays, but counts as misscheduled; it is not replaced."""

    RUN = 2
    """A pod must run there."""


class Placement(Struct, frozen=True):
    """The rules of a template about nodes, compiled, since many nodes are checked."""

    node_name: str
    required: RequiredNodes
    tolerations: tuple[scheduling.Toleration, ...]
    compares_numbers: bool = False

    def fit(self, node: Node) -> Fit:
        """Return the fit of a node."""
        if self.node_name and self.node_name != node.metadata.name:
            return Fit.NONE
        if not self.required.matches(node):
            return Fit.NONE
        if not node.spec.taints or self._tolerates(
            node, scheduling.NO_EXECUTE, scheduling.NO_SCHEDULE
        ):
            return Fit.RUN
        return Fit.KEEP if self._tolerates(node, scheduling.NO_EXECUTE) else Fit.NONE

    def _tolerates(self, node: Node, *effects: str) -> bool:
        taint = untolerated(
            node.spec.taints,
            self.tolerations,
            effects,
            compares_numbers=self.compares_numbers,
        )
        return taint is None


def placement_of(template: PodTemplateSpec, *, compares_numbers: bool) -> Placement:
    """Return the placement of a template's pods, with the default tolerations.

    `compares_numbers` is the feature gate TaintTolerationComparisonOperators.
    """
    spec = msgspec.json.decode(template.spec, type=scheduling.SchedulingSpec)
    return Placement(
        spec.node_name,
        required_nodes(spec.node_selector, spec.affinity),
        with_default_tolerations(
            spec.tolerations or (), host_network=spec.host_network
        ),
        compares_numbers,
    )


def target_of(pod: Pod) -> str:
    """Return the node that a pod runs on, or must run on; empty for none or several."""
    # A pod that is not bound yet names the node in its required node affinity, by the
    # field metadata.name.
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity
    node_affinity = affinity.node_affinity if affinity is not None else None
    if node_affinity is None or node_affinity.required is None:
        return ""
    for term in node_affinity.required.node_selector_terms or ():
        for field in term.match_fields or ():
            if field.key == scheduling.NODE_NAME_FIELD and field.operator == "In":
                values = field.values or ()
                return values[0] if len(values) == 1 else ""
    return ""


class CompiledTemplate:
    """The placement of a template, the nodes that fit it, and the equal revisions.

    A cluster may have thousands of nodes, and a daemon set may need few of them. So a
    sync does not check all nodes. Each node is compared with the placement once, and
    again when it changes.
    """

    def __init__(self, template: PodTemplateSpec, placement: Placement) -> None:
        self._placement = placement
        self._fits: dict[str, Fit] | None = None
        self.seen_changes = 0
        """The position up to which the log of changed nodes was read."""

        self.template = template
        self._is_equal: dict[str, bool] = {}

    def fits(self, nodes: Callable[[], Iterable[Node]]) -> dict[str, Fit]:
        """Return the fit of each node where a pod may run, by name, as a copy."""
        # `nodes` is called only the first time.
        if self._fits is None:
            found = ((each, self._placement.fit(each)) for each in nodes())
            self._fits = {
                node.metadata.name: fit for node, fit in found if fit is not Fit.NONE
            }
        return dict(self._fits)

    def fit_of(self, node: Node) -> Fit:
        """Compute the fit of a node anew."""
        return self._placement.fit(node)

    def has_changed(self, name: str, node: Node | None) -> bool:
        """Store the fit of a node, `None` if it is gone; tell if that changes it."""
        if self._fits is None:
            return False
        before = self._fits.get(name, Fit.NONE)
        now = Fit.NONE if node is None else self._placement.fit(node)
        if now is Fit.NONE:
            self._fits.pop(name, None)
        else:
            self._fits[name] = now
        return now is not before

    @cached_property
    def data(self) -> Raw:
        """The data of the revision that records this template."""
        return template_data(self.template)

    def matching(self, revisions: Iterable[ControllerRevision]) -> Collection[str]:
        """Return the uids of the revisions that hold this template."""
        # The data of a revision never changes, so it is compared only once.
        known, self._is_equal = self._is_equal, {}
        for each in revisions:
            uid = each.metadata.uid
            if uid not in known:
                known[uid] = find_equal((each,), self.data) is not None
            self._is_equal[uid] = known[uid]
        return {uid for uid, is_equal in self._is_equal.items() if is_equal}


class TemplateTracker:
    """The compiled template of each daemon set, by key.

    A node that changes is compared with all daemon sets. Decoding a template each time
    would cost 10 µs.
    """

    def __init__(self, place: Callable[[PodTemplateSpec], Placement]) -> None:
        self._place = place
        self._compiled: dict[str, CompiledTemplate] = {}

    def __len__(self) -> int:
        """Return the number of daemon sets with a compiled template."""
        return len(self._compiled)

    def of(self, daemon_set: DaemonSet) -> CompiledTemplate:
        """Return the compiled template of a daemon set that is cached."""
        key, template = key_of(daemon_set), daemon_set.spec.template
        compiled = self._compiled.get(key)
        if compiled is None or (
            compiled.template is not template and compiled.template != template
        ):
            compiled = self._compiled[key] = CompiledTemplate(
                template, self._place(template)
            )
        # A change of the status brings an equal template. If it is stored, the next
        # comparison is one of identity, which takes no time.
        compiled.template = template
        return compiled

    def forget(self, key: str) -> None:
        """Drop the template of a daemon set that is gone."""
        self._compiled.pop(key, None)


class ChangeLog:
    """Names of changed nodes in order, for readers that store their `position`."""

    def __init__(self) -> None:
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

    def fit_of(self, compiled: CompiledTemplate, name: str) -> Fit | None:
        """Compute the fit of a cached node anew; `None` if there is no such node."""
        node = self.nodes.get("", name)
        return None if node is None else compiled.fit_of(node)

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
        pods = self._pods.by_index(DAEMON_PODS_BY_NODE, name)
        owners = map(self._daemon_sets.controller_of, pods)
        yield from (key_of(each) for each in owners if each is not None)
