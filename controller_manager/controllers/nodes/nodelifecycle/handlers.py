"""Event handlers that keep the tracker of nodes up to date with the caches."""

from collections.abc import Callable
from typing import Final

from controller_manager.api.coordination.v1 import LEASE_RENEWALS, LeaseRenewal
from controller_manager.api.core.v1 import NODES, Node, NodeMeta
from controller_manager.api.times import parse_time
from controller_manager.client.events import NORMAL
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext

from .node_health import observe
from .topology import zone_of
from .tracker import NodeRecord, NodeTracker

NODE_LEASES: Final = "kube-node-lease"
"""The namespace of the leases of nodes; a lease has the name of its node."""


class NodeHandlers:
    """Collects the nodes that have changed, and the times of renewed leases.

    A heartbeat of a node costs one comparison. Events before `start` are ignored: a
    manager that does not lead keeps no state.
    """

    def __init__(self, context: ControllerContext, records: NodeTracker) -> None:
        self._clock = context.clock
        self._server_clock = context.server_clock
        self._recorder = context.recorder
        self._tracker = records
        self._nodes = context.lister(NODES)
        self._leases = context.lister(LEASE_RENEWALS)
        self._changed: dict[str, None] = {}
        self._is_started = False
        context.informers.informer(NODES).add_handler(
            Handler(
                on_add=self._note,
                on_update=lambda _, node: self._note(node),
                on_delete=self._note,
            )
        )
        context.informers.informer(LEASE_RENEWALS).add_handler(
            Handler(
                on_add=self._renewed,
                on_update=lambda _, lease: self._renewed(lease),
            )
        )

    def start(self) -> None:
        """Begin to collect changes; all nodes count as changed."""
        self._is_started = True
        self._changed = dict.fromkeys(self._nodes.keys())

    def requeue(self, name: str) -> None:
        """Count a node as changed, so that the next check includes it."""
        self._changed[name] = None

    def update(self, forget: Callable[[NodeRecord], None]) -> list[str]:
        """Update the records of the changed nodes; return those that exist.

        `forget` is called for each node that is gone.
        """
        changed, self._changed = self._changed, {}
        return [name for name in changed if self._update(name, forget)]

    def node(self, name: str) -> Node | None:
        """Return the cached node."""
        return self._nodes.by_key(name)

    def _update(self, name: str, forget: Callable[[NodeRecord], None]) -> bool:
        """Make, update or remove the record of a node; tell whether it exists."""
        node = self._nodes.by_key(name)
        record = self._tracker.get(name)
        if record is not None and not _is_same(record.node, node):
            self._tracker.remove(name)
            self._event(record.node, "RemovingNode", f"Removing Node {name} from")
            forget(record)
            record = None
        if node is None:
            return False
        now = self._clock.monotonic()
        if record is None:
            self._add(node, now)
        else:
            record.node = node
            record.health = observe(record.health, node, now, 0)
        return True

    def _add(self, node: Node, now: float) -> None:
        name = node.metadata.name
        record = NodeRecord(node, observe(None, node, now, self._age(node)))
        record.zone = zone_of(node)
        self._tracker.add(record)
        lease = self._leases.get(NODE_LEASES, name)
        if lease is not None:
            # The time of the renewal is unknown: the grace period begins now, but the
            # renewal does not count as a change.
            record.renewed, record.renewed_at = lease.spec.renew_time, now
        self._event(node, "RegisteredNode", f"Registered Node {name} in")

    def _age(self, node: Node) -> float:
        """Return the age of a node in seconds, by the clock of the API server."""
        created = node.metadata.creation_timestamp
        if created is None:
            return 0.0
        return (self._server_clock.now() - parse_time(created)).total_seconds()

    def _event(self, node: Node, reason: str, text: str) -> None:
        # Upstream's reference to the node has no version.
        metadata = NodeMeta(name=node.metadata.name, uid=node.metadata.uid)
        message = f"Node {node.metadata.name} event: {text} Controller"
        self._recorder.event(NODES, Node(metadata=metadata), NORMAL, reason, message)

    def _note(self, node: Node) -> None:
        if self._is_started:
            self._changed[node.metadata.name] = None

    def _renewed(self, lease: LeaseRenewal) -> None:
        metadata = lease.metadata
        if metadata.namespace == NODE_LEASES:
            now = self._clock.monotonic()
            self._tracker.renewed(metadata.name, lease.spec.renew_time, now)


def _is_same(old: Node, new: Node | None) -> bool:
    """Tell whether two versions are those of one node, which still exists."""
    return new is not None and old.metadata.uid == new.metadata.uid
