"""Deliberate bugs of the node IPAM controller."""

from collections.abc import Mapping
from typing import Final

from controller_manager.controllers.nodes.nodeipam.controller import NodeIPAMReconciler
from controller_manager.controllers.nodes.nodeipam.ranges import (
    CIDRSet,
    Network,
    RangeAllocator,
)
from tests.simulation.planted import Bug

_OLD: Final = "ranges-that-an-old-cache-lacks"
_FULL: Final = "cluster-is-full-until-a-node-goes"
_allocate: Final = CIDRSet.allocate


async def _believe_the_cache(_: NodeIPAMReconciler) -> None:
    """Begin with what the cache shows."""


def _lowest_first(ranges: CIDRSet) -> tuple[Network, int]:
    ranges._next = 0
    return _allocate(ranges)


BUGS: Final[Mapping[str, Bug]] = {
    "give ranges by what the cache shows": Bug(
        0, NodeIPAMReconciler, "_list_nodes", _believe_the_cache, _OLD
    ),
    "forget the ranges that nodes have": Bug(
        0, RangeAllocator, "hold", lambda *_: False, _OLD
    ),
    "never free a range": Bug(0, RangeAllocator, "release", lambda *_: None, _FULL),
    "let nodes wait for their backoff": Bug(
        0, NodeIPAMReconciler, "_wake", lambda _: None, _FULL
    ),
    "use a freed range at once": Bug(
        0, CIDRSet, "allocate", _lowest_first, "freed-range-rests"
    ),
}
