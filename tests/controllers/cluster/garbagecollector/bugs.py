"""Deliberate bugs of the garbage collector."""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.meta import OwnerReference, PartialObject
from controller_manager.controllers.cluster.garbagecollector.controller import (
    GarbageCollector,
)
from controller_manager.controllers.cluster.garbagecollector.graph import (
    Graph,
    Identity,
    Node,
)
from tests.simulation.planted import Bug


async def _believe_the_graph(
    self: GarbageCollector, _: Identity, reference: OwnerReference
) -> PartialObject | None:
    """Treat an owner that no watch has shown as gone."""
    node = self.graph.nodes.get(reference.uid)
    seen = node is not None and not node.is_virtual
    return PartialObject() if seen else None


def _do_not_look_at_dependents(self: Graph, node: Node) -> None:
    del self.nodes[node.uid]
    self._drop_from_owners(node, node.owners)


BUGS: Final[Mapping[str, Bug]] = {
    "collect without a quorum read": Bug(
        1, GarbageCollector, "_owner", _believe_the_graph
    ),
    "orphan only the dependents in the graph": Bug(
        0, Graph, "kinds_owned_by", lambda *_: [], "orphan-that-no-watch-shows"
    ),
    "leave dependents alone": Bug(1, Graph, "_remove", _do_not_look_at_dependents),
    "forget to drop a uid": Bug(
        0, GarbageCollector, "_forget", lambda *_: None, "references-to-unknown-kinds"
    ),
    "remember kinds that were invented": Bug(
        0,
        Graph,
        "_forget_unserved_kind",
        lambda *_: None,
        "references-to-unknown-kinds",
    ),
}
