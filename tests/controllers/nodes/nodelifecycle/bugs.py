"""Deliberate bugs of the node lifecycle controller."""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.core.v1 import Node
from controller_manager.controllers.nodes.nodelifecycle import health, taints
from controller_manager.controllers.nodes.nodelifecycle.controller import NodeMonitor
from controller_manager.controllers.nodes.nodelifecycle.health import (
    NodeHealth,
    NodeTracker,
)
from controller_manager.controllers.nodes.nodelifecycle.taints import NoExecuteTainter
from tests.simulation.planted import Bug

_DIES: Final = "node-dies-and-comes-back"
_SILENT: Final = "watch-of-leases-is-silent"


async def _trust_the_cache(_: NodeMonitor, __: object) -> None:
    """Read no lease from the API server."""


async def _renews_no_lease(_: NodeMonitor, __: str) -> bool:
    return False


def _silent_since_ever(
    _: NodeHealth | None, __: Node, now: float, ___: float
) -> NodeHealth:
    return NodeHealth(now - 1e6, posted=True, heartbeat=None)


BUGS: Final[Mapping[str, Bug]] = {
    "trust a silent watch of leases": Bug(
        0, NodeMonitor, "_read_lease", _trust_the_cache, _SILENT
    ),
    "evict a node that is back": Bug(
        0,
        NodeMonitor,
        "renews_lease",
        _renews_no_lease,
        "node-is-back-before-its-turn",
    ),
    "take what was never seen for silence": Bug(
        0, health, "observe", _silent_since_ever, _DIES
    ),
    "never find a dead node": Bug(0, NodeTracker, "due", lambda *_: [], _DIES),
    "let new pods on a dead node": Bug(
        0, taints, "no_schedule_taints", lambda *_: None, _DIES
    ),
    "never evict": Bug(0, NoExecuteTainter, "add", lambda *_: None, _DIES),
    "keep the taints of a node that is back": Bug(
        0, taints, "without_no_execute", lambda _: None, _DIES
    ),
}
