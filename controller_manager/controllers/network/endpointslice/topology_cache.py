"""Keeps the shares of zones, and the services with hints (topologycache.go)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import Node
from controller_manager.api.meta import labels_of
from controller_manager.api.quantity import QuantityError, parse_quantity
from controller_manager.client.events import NORMAL, WARNING
from controller_manager.control.endpoints.slices.actions import SliceActions

from .desired import zone_of
from .topology import is_overloaded, with_zone_hints

_EXCLUDED: Final = frozenset(
    ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
)
"""Labels of nodes that are expected to serve no traffic."""

_FEWEST_ZONES: Final = 2


def zone_shares(nodes: Iterable[Node]) -> Mapping[str, float] | None:
    """Return the share of each zone in the CPUs, between 0 and 1 (SetNodes).

    Only ready nodes count. The result is `None` if one of them has no zone or no CPUs,
    or if there are fewer than two zones: then no hints are given.
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


ENABLED: Final = "TopologyAwareHintsEnabled"
DISABLED: Final = "TopologyAwareHintsDisabled"


class HintEvent(Struct, frozen=True):
    """An event about the hints of a service."""

    type: str
    reason: str
    message: str


class TopologyHints:
    """Sets hints by topology, and keeps the number of endpoints for each zone.

    The shares of the zones are computed when they are first needed after a change of
    nodes.
    """

    def __init__(self, nodes: Callable[[], Iterable[Node]]) -> None:
        self._nodes = nodes
        self._shares: Mapping[str, float] | None = None
        self._is_current = False
        self._allocated: dict[str, dict[str, dict[str, int]]] = {}
        """Endpoints by zone, by address type, by service."""
        self._populated: set[str] = set()
        """Services whose last request for hints was granted."""

    def __len__(self) -> int:
        """Return the number of services that have hints."""
        return len(self._allocated)

    def nodes_changed(self) -> None:
        """Mark the shares of the zones as outdated."""
        self._is_current = False

    def shares(self) -> Mapping[str, float] | None:
        """Return the share of each zone in the CPUs, `None` if it is not known."""
        if not self._is_current:
            self._shares = zone_shares(self._nodes())
            self._is_current = True
        return self._shares

    def overloaded(self) -> list[str]:
        """Return the keys of the services whose hints do not fit the nodes any more."""
        return [
            key
            for key, by_type in self._allocated.items()
            if any(is_overloaded(each, self.shares()) for each in by_type.values())
        ]

    def add(
        self, key: str, address_type: str, changes: SliceActions
    ) -> tuple[SliceActions, HintEvent | None]:
        """Return actions with hints, and an event if hints begin or cannot be given."""
        result = with_zone_hints(changes, self.shares())
        if result.problem:
            self.drop(key, address_type)
            return result.changes, _event(
                WARNING, DISABLED, result.problem, address_type
            )
        had_hints = key in self._populated
        self._allocated.setdefault(key, {})[address_type] = result.allocated
        self._populated.add(key)
        if had_hints:
            return result.changes, None
        message = "Topology Aware Hints has been enabled"
        return result.changes, _event(NORMAL, ENABLED, message, address_type)

    def remove(self, key: str, address_type: str) -> HintEvent | None:
        """Forget the hints of a service that asks for none; return an event if any."""
        had_hints = key in self._populated
        self.drop(key, address_type)
        if not had_hints:
            return None
        message = "Topology Aware Hints has been disabled"
        return _event(WARNING, DISABLED, message, address_type)

    def drop(self, key: str, address_type: str) -> None:
        """Forget the hints of one address type of a service."""
        by_type = self._allocated.get(key, {})
        by_type.pop(address_type, None)
        if not by_type:
            self._allocated.pop(key, None)
        self._populated.discard(key)

    def forget(self, key: str) -> None:
        """Drop a service that is gone."""
        self._allocated.pop(key, None)
        self._populated.discard(key)


def _event(kind: str, reason: str, message: str, address_type: str) -> HintEvent:
    return HintEvent(kind, reason, f"{message}, addressType: {address_type}")
