"""Finds the services that a changed node concerns."""

from collections.abc import Callable, Iterable, Sequence

from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.control.pods_by_node import PODS_BY_NODE
from controller_manager.controllers.network.endpointslice.backends import zone_of
from controller_manager.controllers.network.endpointslice.hints.capacity import (
    is_ready_node,
)
from controller_manager.informers.informer import Handler
from controller_manager.runtime.context import ControllerContext


class NodeChanges:
    """Tells which pods have other endpoints since their node has changed.

    Only the presence and the zone of a node count for that, and its readiness for
    hints. So a heartbeat costs one comparison.
    """

    def __init__(
        self,
        context: ControllerContext,
        pods_changed: Callable[[Iterable[Pod]], None],
        pods_lost_node: Callable[[Iterable[Pod]], None],
        capacity_changed: Callable[[], None],
    ) -> None:
        """Watch the nodes.

        `pods_changed` is called with the pods of a node that is new or in another zone,
        `pods_lost_node` with those of one that is gone. `capacity_changed` is called
        when the shares of the zones in the CPUs of the cluster may be others.
        """
        self.nodes = context.lister(NODES)
        self._pods = context.lister(PODS, PODS_BY_NODE)
        self._pods_changed = pods_changed
        self._pods_lost_node = pods_lost_node
        self._capacity_changed = capacity_changed
        context.informers.informer(NODES).add_handler(
            Handler(
                on_add=self._added, on_update=self._updated, on_delete=self._deleted
            )
        )

    def _added(self, node: Node) -> None:
        self._capacity_changed()
        self._pods_changed(self._pods_of(node))

    def _deleted(self, node: Node) -> None:
        self._capacity_changed()
        self._pods_lost_node(self._pods_of(node))

    def _updated(self, old: Node, new: Node) -> None:
        has_other_zone = zone_of(old) != zone_of(new)
        if has_other_zone or is_ready_node(old) != is_ready_node(new):
            self._capacity_changed()
        if has_other_zone:
            self._pods_changed(self._pods_of(new))

    def _pods_of(self, node: Node) -> Sequence[Pod]:
        return self._pods.by_index(PODS_BY_NODE, node.metadata.name)
