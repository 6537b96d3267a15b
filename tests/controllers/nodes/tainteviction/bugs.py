"""Deliberate bugs of the taint eviction controller."""

from collections.abc import Mapping
from typing import Any, Final

from controller_manager.controllers.nodes.tainteviction import evictions
from controller_manager.controllers.nodes.tainteviction.controller import TaintEviction
from tests.simulation.planted import Bug

_RESTARTS: Final = "manager-restarts-while-pods-wait"


async def _trust_the_cache(*_: Any) -> None:
    return None


def _half_the_time(*_: Any) -> int:
    return 30


BUGS: Final[Mapping[str, Bug]] = {
    "evict from a node that is well again": Bug(
        0,
        TaintEviction,
        "_must_wait",
        _trust_the_cache,
        "watch-of-nodes-is-silent",
    ),
    "forget tainted nodes at a restart": Bug(
        0, TaintEviction, "enqueue_tainted", lambda _: iter(()), _RESTARTS
    ),
    "evict a pod that tolerates for ever": Bug(
        0, evictions, "tolerated_seconds", _half_the_time, _RESTARTS
    ),
    "never evict": Bug(0, TaintEviction, "_node_updated", lambda *_: None, _RESTARTS),
}
