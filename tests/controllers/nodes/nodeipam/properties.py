"""The properties of the node IPAM controller."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_network
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.options.config import Config, PodRangesConfig
from tests.controllers.nodes.nodeipam.workload import PassingNodes
from tests.simulation.changes import Path, only
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


CLUSTER: Final = "10.244.0.0/21"
"""Enough for eight nodes."""

_FIELDS: Final = (("spec", "podCIDR"), ("spec", "podCIDRs"))


def _gives_ranges(path: Path, old: Any, new: Any) -> bool:
    """Allow ranges, for a node that has none."""
    return only(*_FIELDS)(path, old, new) and not (path[:2] in _FIELDS and old)


class NodeIPAMProperties(Properties):
    """It gives each node ranges once; no two nodes have ranges that overlap."""

    controller = "node-ipam-controller"
    may_write = (AllowedWrite(("patch",), "nodes", _gives_ranges),)
    workload = PassingNodes

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Let the controller give ranges to nodes."""
        pods = PodRangesConfig(allocate=True, cluster=CLUSTER)
        return replace(config, pod_ranges=pods)

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that no other node has the ranges that the controller gives."""
        if write.controller != self.controller or write.after is None:
            return
        given = write.after
        for other in self.state.stored("nodes"):
            if other["metadata"]["uid"] != given["metadata"]["uid"] and overlap(
                given, other
            ):
                yield f"{write}: {other['metadata']['name']} has this range, too"

    def broken_invariants(self) -> Iterator[str]:
        """Check all nodes against each other."""
        for one, other in combinations(self.state.stored("nodes"), 2):
            if overlap(one, other):
                names = [each["metadata"]["name"] for each in (one, other)]
                yield f"{' and '.join(names)} have overlapping ranges"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that every node has a range, if there are enough."""
        del managers
        nodes = self.state.stored("nodes")
        without = [each["metadata"]["name"] for each in nodes if not ranges_of(each)]
        if without and len(nodes) <= len([*ip_network(CLUSTER).subnets(new_prefix=24)]):
            yield f"the nodes {', '.join(without)} have no range"


def ranges_of(node: JSON) -> list[str]:
    """Return the ranges of a node."""
    found: list[str] = node.get("spec", {}).get("podCIDRs") or []
    return found


def overlap(one: JSON, other: JSON) -> bool:
    """Tell whether two nodes have ranges with an address in common."""
    pairs = product(map(ip_network, ranges_of(one)), map(ip_network, ranges_of(other)))
    return any(a.version == b.version and a.overlaps(b) for a, b in pairs)


PROPERTIES = NodeIPAMProperties
