"""The share of each zone in the CPUs of the cluster (SetNodes)."""

from collections.abc import Iterable, Mapping
from typing import Final

from controller_manager.api.core.v1 import Node
from controller_manager.api.meta import labels_of
from controller_manager.api.quantity import QuantityError, parse_quantity
from controller_manager.controllers.network.endpointslice.backends import zone_of

_EXCLUDED: Final = frozenset(
    ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
)
"""Labels of nodes that are expected to serve no traffic."""

_FEWEST_ZONES: Final = 2


def zone_shares(nodes: Iterable[Node]) -> Mapping[str, float] | None:
    """Return the share of each zone, between 0 and 1.

    Only ready nodes count. `None` if one of them has no zone or no CPUs, or if there
    are not two zones: then no hints are given.
    """
    millis: dict[str, int] = {}
    for node in nodes:
        if not is_ready_node(node) or not _EXCLUDED.isdisjoint(labels_of(node)):
            continue
        zone, cpu = zone_of(node), _milli_cpus(node)
        if not zone or not cpu:
            return None
        millis[zone] = millis.get(zone, 0) + cpu
    if len(millis) < _FEWEST_ZONES:
        return None
    total = sum(millis.values())
    return {zone: cpu / total for zone, cpu in sorted(millis.items())}


def is_ready_node(node: Node) -> bool:
    """Tell whether the Ready condition of a node is true."""
    return any(
        each.type == "Ready" and each.status == "True"
        for each in node.status.conditions or ()
    )


def _milli_cpus(node: Node) -> int:
    allocatable = node.status.allocatable
    if allocatable is None or not allocatable.cpu:
        return 0
    try:
        return parse_quantity(str(allocatable.cpu)).milli_value
    except QuantityError:
        return 0
