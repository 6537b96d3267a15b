"""Deliberate bugs of the pod garbage collector."""

from collections.abc import Mapping
from typing import Final

from controller_manager.controllers.nodes.podgc import controller
from controller_manager.controllers.nodes.podgc.controller import PodGarbageCollector
from tests.simulation.planted import Bug


async def _believe_the_cache(_: PodGarbageCollector, __: str) -> bool:
    return True


BUGS: Final[Mapping[str, Bug]] = {
    "collect the pods of a node that the cache lacks": Bug(
        0,
        PodGarbageCollector,
        "_is_gone",
        _believe_the_cache,
        "node-that-the-cache-lacks",
    ),
    "collect pods without a quarantine": Bug(
        0, controller, "_QUARANTINE", 0.0, "node-is-back-within-its-quarantine"
    ),
    "collect no pod": Bug(
        0, controller, "missing_nodes", lambda *_: (), "pod-of-a-node-that-is-gone"
    ),
}
