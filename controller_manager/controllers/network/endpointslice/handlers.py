"""Finds the services that a changed node or a changed slice concerns."""

from collections.abc import Callable, Iterable, Sequence

from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.api.discovery.v1 import MANAGED_BY, EndpointSlice
from controller_manager.api.meta import is_deleting, labels_of
from controller_manager.control.endpoints.slices.indexes import service_key_of
from controller_manager.control.endpoints.slices.tracker import SliceTracker
from controller_manager.control.pods_by_node import PODS_BY_NODE
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext

from .decide import MANAGER
from .desired import zone_of
from .topology_cache import is_ready_node


class NodeHandlers:
    """Finds the pods whose endpoints change because their node has changed.

    Only the presence and the zone of a node matter, and for hints its readiness. So a
    heartbeat costs one comparison.
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
        when the shares of the zones in the CPUs of the cluster may have changed.
        """
        self.nodes = context.lister(NODES)
        self._pods = context.lister(PODS, PODS_BY_NODE)
        self._pods_changed = pods_changed
        self._pods_lost_node = pods_lost_node
        self._capacity_changed = capacity_changed
        context.informers.informer(NODES).add_handler(
            Handler(
                on_add=self._added,
                on_update=self._updated,
                on_delete=self._deleted,
                depends_on=DependsOn("metadata.labels", "status.conditions[Ready]"),
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


def is_managed(each: EndpointSlice) -> bool:
    """Tell whether this controller manages a slice."""
    return labels_of(each).get(MANAGED_BY) == MANAGER


def slice_handler(
    tracker: SliceTracker, changed: Callable[[str], None]
) -> Handler[EndpointSlice]:
    """Return a handler that calls `changed` with the key of a service.

    It does so if another client has changed a slice that this controller manages or
    managed.
    """

    def report(*slices: EndpointSlice) -> None:
        for key in dict.fromkeys(map(service_key_of, slices)):
            if key:
                changed(key)

    def added(new: EndpointSlice) -> None:
        if is_managed(new) and not tracker.is_own_write(new):
            report(new)

    def updated(old: EndpointSlice, new: EndpointSlice) -> None:
        if not is_managed(old) and not is_managed(new):
            return
        if not tracker.is_own_write(new) and _differ(old, new):
            report(old, new)

    def deleted(last: EndpointSlice) -> None:
        if not tracker.gone(last) and is_managed(last):
            report(last)

    return Handler(on_add=added, on_update=updated, on_delete=deleted)


def _differ(old: EndpointSlice, new: EndpointSlice) -> bool:
    """Tell whether more than annotations and owners has changed."""
    return (
        old.metadata.labels != new.metadata.labels
        or old.endpoints != new.endpoints
        or old.ports != new.ports
        or is_deleting(old) != is_deleting(new)
    )
