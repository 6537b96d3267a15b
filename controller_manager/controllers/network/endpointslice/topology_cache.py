"""Hints that give each zone its share of the endpoints (topologycache.go)."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import Node
from controller_manager.api.discovery import v1
from controller_manager.api.meta import labels_of
from controller_manager.api.quantity import QuantityError, parse_quantity
from controller_manager.client.events.recorder import NORMAL, WARNING
from controller_manager.control.endpoints.slices import SliceActions, key_of_endpoint

from .hints import is_ready, rehinted, without_hints
from .slices import zone_of

OVERLOAD: Final = 0.2
"""The largest part by which the traffic of an endpoint may exceed its share."""

_FACTOR: Final = 1 / (1 + OVERLOAD)
_HALF: Final = 0.5


class Allocation(Struct, frozen=True):
    """The smallest, the largest and the best number of endpoints of one zone."""

    minimum: int
    maximum: int
    desired: float


class TooFewEndpoints(Exception):
    """The endpoints cannot be shared among the zones; the message is upstream's."""


def allocations(
    shares: Mapping[str, float] | None, endpoints: int
) -> dict[str, Allocation]:
    """Return the numbers of endpoints of each zone, by its share in the CPUs.

    Upstream: getAllocations.

    Raises TooFewEndpoints if the shares are not known, or if a zone would get so few
    endpoints that they are overloaded by more than a fifth.
    """
    if shares is None:
        msg = (
            "Insufficient Node information: allocatable CPU or zone not specified on "
            "one or more nodes"
        )
        raise TooFewEndpoints(msg)
    counts = f"({endpoints} endpoints, {len(shares)} zones)"
    if len(shares) > endpoints:
        msg = f"Insufficient number of endpoints {counts}"
        raise TooFewEndpoints(msg)
    minimums = {
        zone: math.ceil(share * endpoints * _FACTOR) for zone, share in shares.items()
    }
    spare = endpoints - sum(minimums.values())
    if spare < 0:
        msg = (
            "Unable to allocate minimum required endpoints to each zone without "
            f"exceeding overload threshold {counts}"
        )
        raise TooFewEndpoints(msg)
    return {
        zone: Allocation(least, least + spare, max(shares[zone] * endpoints, least))
        for zone, least in minimums.items()
    }


def transfers(
    allocated: Mapping[str, int], wanted: Mapping[str, Allocation]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many endpoints zones give to others, and how many they receive.

    Single endpoints move from the zone with the largest surplus to the zone with the
    largest lack, until that does not help any more (getGivingAndReceivingZones).
    """
    surplus = {
        zone: allocated.get(zone, 0) - each.desired for zone, each in wanted.items()
    }
    lack = {zone: -count for zone, count in surplus.items()}
    giving: dict[str, int] = {}
    receiving: dict[str, int] = {}
    while True:
        giver, to_give = _most(surplus)
        receiver, to_receive = _most(lack)
        if (to_give < 1 and to_receive < 1) or min(to_give, to_receive) < _HALF:
            return giving, receiving
        giving[giver] = giving.get(giver, 0) + 1
        receiving[receiver] = receiving.get(receiver, 0) + 1
        surplus[giver] -= 1
        lack[receiver] -= 1


def _most(zones: Mapping[str, float]) -> tuple[str, float]:
    zone = max(sorted(zones), key=zones.__getitem__, default="")
    return zone, zones.get(zone, 0.0)


def is_overloaded(
    allocated: Mapping[str, int], shares: Mapping[str, float] | None
) -> bool:
    """Tell whether hints give any zone too few endpoints (serviceOverloaded)."""
    if not allocated or shares is None:
        return bool(allocated)
    total = sum(allocated.values())
    return any(
        allocated.get(zone, 0) < math.ceil(total * share * _FACTOR)
        for zone, share in shares.items()
    )


class ZoneHints(Struct, frozen=True):
    """The actions with hints, and the number of endpoints for each zone.

    If the endpoints cannot be shared, `problem` has the reason, and there are no hints.
    """

    changes: SliceActions
    allocated: dict[str, int]
    problem: str = ""


def with_zone_hints(
    changes: SliceActions, shares: Mapping[str, float] | None
) -> ZoneHints:
    """Return actions with a hint for each ready endpoint.

    `shares` are those of the zones in the CPUs of the cluster. An endpoint is for the
    clients of its own zone, unless that zone has too many endpoints and another zone
    has too few. Unchanged slices are not written if their hints still fit.
    """
    written = (*changes.create, *changes.update)
    try:
        wanted = allocations(shares, len(_ready((*written, *changes.unchanged))))
    except TooFewEndpoints as error:
        return ZoneHints(without_hints(changes), {}, str(error))
    allocated: Counter[str] = Counter()
    wrong = _outdated(changes.unchanged, wanted, allocated)
    ready = _ready((*written, *wrong))
    if not all(each.zone for each in ready):
        problem = "One or more endpoints do not have a zone specified"
        return ZoneHints(without_hints(changes), {}, problem)
    zones = _zones_of(ready, wanted, allocated)
    if not allocated:
        problem = "No hints allocated for zones"
        return ZoneHints(without_hints(changes), {}, problem)

    def hint(endpoint: v1.Endpoint) -> v1.EndpointHints | None:
        if not is_ready(endpoint):
            return None
        zone = zones[key_of_endpoint(endpoint)]
        return v1.EndpointHints(for_zones=(v1.ForZone(name=zone),))

    return ZoneHints(rehinted(changes, hint, wrong), dict(allocated))


def _ready(slices: Iterable[v1.EndpointSlice]) -> list[v1.Endpoint]:
    return [one for each in slices for one in each.endpoints or () if is_ready(one)]


def _outdated(
    unchanged: Sequence[v1.EndpointSlice],
    wanted: Mapping[str, Allocation],
    allocated: Counter[str],
) -> list[v1.EndpointSlice]:
    """Return the slices whose hints do not fit; count the others in `allocated`."""
    found = []
    for each in unchanged:
        hints = [one.hints for one in _ready([each])]
        zones = [(one and one.for_zones) or () for one in hints]
        counts = Counter(zone.name for of_endpoint in zones for zone in of_endpoint)
        if all(zones) and all(
            zone in wanted and allocated[zone] + count <= wanted[zone].maximum
            for zone, count in counts.items()
        ):
            allocated += counts
        else:
            found.append(each)
    return found


def _zones_of(
    ready: Sequence[v1.Endpoint],
    wanted: Mapping[str, Allocation],
    allocated: Counter[str],
) -> dict[object, str]:
    """Return the zone of the hint of each endpoint; count the zones in `allocated`."""
    allocated.update(each.zone or "" for each in ready)
    giving, receiving = transfers(allocated, wanted)
    receivers = [
        zone for zone, count in sorted(receiving.items()) for _ in range(count)
    ]
    zones: dict[object, str] = {}
    for each in ready:
        zone = each.zone or ""
        if receivers and giving.get(zone, 0):
            giving[zone] -= 1
            allocated[zone] -= 1
            zone = receivers.pop(0)
            allocated[zone] += 1
        zones[key_of_endpoint(each)] = zone
    return zones


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
    millis: Counter[str] = Counter()
    for node in nodes:
        if not is_ready_node(node) or not _EXCLUDED.isdisjoint(labels_of(node)):
            continue
        zone, cpu = zone_of(node), _milli_cpus(node)
        if not zone or not cpu:
            return None
        millis[zone] += cpu
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
    try:
        return parse_quantity(str((allocatable and allocatable.cpu) or 0)).milli_value
    except QuantityError:
        return 0


_DISABLED: Final = "TopologyAwareHintsDisabled"

HintEvent = tuple[str, str, str]
"""Type, reason and message of an event about the hints of a service."""


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
            self._shares, self._is_current = zone_shares(self._nodes()), True
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
        about = f"addressType: {address_type}"
        if result.problem:
            self.drop(key, address_type)
            return result.changes, (WARNING, _DISABLED, f"{result.problem}, {about}")
        had_hints = key in self._populated
        self._allocated.setdefault(key, {})[address_type] = result.allocated
        self._populated.add(key)
        if had_hints:
            return result.changes, None
        message = f"Topology Aware Hints has been enabled, {about}"
        return result.changes, (NORMAL, "TopologyAwareHintsEnabled", message)

    def remove(self, key: str, address_type: str) -> HintEvent | None:
        """Forget the hints of a service that asks for none; return an event if any."""
        had_hints = key in self._populated
        self.drop(key, address_type)
        about = f"Topology Aware Hints has been disabled, addressType: {address_type}"
        return (WARNING, _DISABLED, about) if had_hints else None

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
