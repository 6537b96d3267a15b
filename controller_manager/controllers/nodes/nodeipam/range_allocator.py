"""The ranges of each node (ipam/range_allocator.go, without its requests)."""

from collections.abc import Sequence

from msgspec import Struct

from .cidr_set import CIDRSet, Network, overlap
from .metrics import NodeIPAMMetrics
from .options import Settings


class NodeRanges(Struct, frozen=True):
    """The ranges that a node has, or that are reserved for it."""

    uid: str
    ranges: tuple[Network, ...]


class RangeAllocator:
    """The ranges of all nodes, by the nodes' names.

    A node holds its ranges until `release`. A range of one node is never reserved for
    another one.
    """

    def __init__(self, settings: Settings, metrics: NodeIPAMMetrics) -> None:
        """Take the ranges of the cluster; those of its services are never free."""
        self._metrics = metrics
        self._sets = [
            CIDRSet(each.network, each.mask_size) for each in settings.cluster
        ]
        self._assigned: dict[str, NodeRanges] = {}
        for each in self._sets:
            metrics.made(each)
        for network in settings.services:
            self._occupy(network)

    @property
    def is_exhausted(self) -> bool:
        """True if a family has no free range left."""
        return any(each.is_exhausted for each in self._sets)

    @property
    def names(self) -> Sequence[str]:
        """The names of the nodes that hold ranges."""
        return tuple(self._assigned)

    def ranges_of(self, name: str) -> NodeRanges | None:
        """Return the ranges of a node, `None` if it has none."""
        return self._assigned.get(name)

    def is_outside(self, network: Network) -> bool:
        """Tell whether a range is outside the cluster's ranges."""
        return not any(overlap(each.network, network) for each in self._sets)

    def reserve(self, name: str, uid: str) -> NodeRanges | None:
        """Give a node a range of each family; return `None` if a family is exhausted.

        In that case the node gets no range at all. Upstream loses the range of the
        first family if the second has none.
        """
        if self.is_exhausted:
            return None
        found = []
        for each in self._sets:
            network, tries = each.allocate()
            self._metrics.tried(each, tries)
            self._metrics.occupied(each, 1)
            found.append(network)
        self._assigned[name] = assigned = NodeRanges(uid, tuple(found))
        return assigned

    def hold(self, name: str, assigned: NodeRanges) -> bool:
        """Replace the ranges of a node by those that its spec has.

        Return whether the services or another node have a part of them.
        """
        former = self._assigned.get(name)
        if former == assigned:
            return False
        if former is not None:
            self.release(name)
        self._assigned[name] = assigned
        shared = [each for each in assigned.ranges if self._occupy(each)]
        return bool(shared)

    def release(self, name: str) -> None:
        """Free the ranges of a node."""
        assigned = self._assigned.pop(name, None)
        for network in assigned.ranges if assigned else ():
            for each in self._sets:
                if freed := each.release(network):
                    self._metrics.freed(each, freed)

    def _occupy(self, network: Network) -> bool:
        """Take a range; tell whether a part of it was taken before."""
        is_shared = False
        for each in self._sets:
            if taken := each.occupy(network):
                self._metrics.occupied(each, taken)
            is_shared |= taken < each.parts_of(network)
        return is_shared
