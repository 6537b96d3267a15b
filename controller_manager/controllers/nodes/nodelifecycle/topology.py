"""Computes the states of zones and their eviction rates (pure functions).

If most nodes of a zone look dead, then probably the network or the API server is
broken, not the nodes. Upstream: handleDisruption, ComputeZoneState.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import Node
from controller_manager.api.meta import labels_of

_LEAST_UNHEALTHY: Final = 3
"""A zone is partly disrupted only if at least this many nodes are unhealthy."""


class ZoneState(StrEnum):
    """The state of a zone, by the part of its nodes that is unhealthy."""

    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


class Count(Struct, frozen=True):
    """The numbers of ready and of unhealthy nodes of a zone."""

    ready: int = 0
    unhealthy: int = 0

    @property
    def size(self) -> int:
        """All nodes of the zone."""
        return self.ready + self.unhealthy


class Rates(Struct, frozen=True):
    """Evictions a second, and when a zone is unhealthy or large."""

    normal: float
    secondary: float
    large_size: int
    unhealthy_part: float

    def state_of(self, count: Count) -> ZoneState:
        """Return the state of a zone. Upstream: ComputeZoneState."""
        if count.unhealthy and not count.ready:
            return ZoneState.FULL
        if count.unhealthy < _LEAST_UNHEALTHY:
            return ZoneState.NORMAL
        is_partial = count.unhealthy / count.size >= self.unhealthy_part
        return ZoneState.PARTIAL if is_partial else ZoneState.NORMAL

    def rate(self, state: ZoneState, size: int) -> float:
        """Return the evictions a second in a zone of this state (setLimiterInZone).

        A zone that is fully down keeps the normal rate: nodes of another are seen.
        """
        if state is not ZoneState.PARTIAL:
            return self.normal
        return self.secondary if size > self.large_size else 0.0


class Disruption(Struct, frozen=True):
    """Whether all zones were and are down, their new states, the rates that change."""

    was_down: bool
    is_down: bool
    states: Mapping[str, ZoneState]
    rates: Mapping[str, float]


def disruption(
    before: Mapping[str, ZoneState], counts: Mapping[str, Count], rates: Rates
) -> Disruption:
    """Return the states and rates of zones by their numbers of unhealthy nodes.

    While every zone is down, nothing is evicted. Upstream: handleDisruption. There a
    cluster whose first ready node is in a new zone keeps the rate 0 in its old zones.
    """
    new = {zone: rates.state_of(count) for zone, count in counts.items()}
    old = {zone: before[zone] for zone in counts if zone in before}
    is_down = bool(new) and all(state is ZoneState.FULL for state in new.values())
    was_down = bool(old) and all(state is ZoneState.FULL for state in old.values())
    if is_down:
        stopped = new.keys() - old.keys() if was_down else new
        return Disruption(was_down, is_down, new, dict.fromkeys(stopped, 0.0))
    changed = {
        zone: rates.rate(state, counts[zone].size)
        for zone, state in new.items()
        if was_down or state is not old.get(zone)
    }
    return Disruption(was_down, is_down, new, changed)


def zone_of(node: Node) -> str:
    """Return the key of a node's zone, empty without one. Upstream: GetZoneKey."""
    labels = labels_of(node)

    def part(name: str) -> str:
        stable = labels.get(f"topology.kubernetes.io/{name}", "")
        return labels.get(f"failure-domain.beta.kubernetes.io/{name}", stable)

    region, zone = part("region"), part("zone")
    return f"{region}:\x00:{zone}" if region or zone else ""


def is_excluded(node: Node) -> bool:
    """Tell whether a label excludes a node from the numbers of its zone."""
    return "node.kubernetes.io/exclude-disruption" in labels_of(node)
