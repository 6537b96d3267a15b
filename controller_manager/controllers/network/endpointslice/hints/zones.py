"""Hints that give each zone its share of the endpoints (AddHints)."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.discovery.v1 import (
    Endpoint,
    EndpointHints,
    EndpointSlice,
    ForZone,
)
from controller_manager.control.endpoints.slices.changes import Changes
from controller_manager.control.endpoints.slices.identity import key_of_endpoint
from controller_manager.controllers.network.endpointslice.hints.allocation import (
    Allocation,
    TooFewEndpoints,
    allocations,
    transfers,
)
from controller_manager.controllers.network.endpointslice.hints.slices import (
    hinted,
    is_ready,
    without_hints,
)


class ZoneHints(Struct, frozen=True):
    """The changes with hints, and how many endpoints each zone has got.

    If the endpoints cannot be shared, `problem` says why, and there are no hints.
    """

    changes: Changes
    allocated: dict[str, int]
    problem: str = ""


def with_zone_hints(changes: Changes, shares: Mapping[str, float] | None) -> ZoneHints:
    """Return changes with a hint for each ready endpoint.

    `shares` are those of the zones in the CPUs of the cluster. An endpoint is for the
    clients of its own zone, unless that zone has too many endpoints and another one too
    few. Slices that are not written anyway stay as they are if their hints still fit.
    """
    slices = (*changes.create, *changes.update, *changes.unchanged)
    try:
        wanted = allocations(shares, sum(map(_ready_in, slices)))
    except TooFewEndpoints as error:
        return ZoneHints(without_hints(changes), {}, str(error))
    kept, moved, allocated = _kept(changes.unchanged, wanted)
    writing = (*changes.create, *changes.update, *moved)
    ready = [one for each in writing for one in each.endpoints or () if is_ready(one)]
    if not all(each.zone for each in ready):
        problem = "One or more endpoints do not have a zone specified"
        return ZoneHints(without_hints(changes), {}, problem)
    zones = _zones_of(ready, wanted, allocated)
    if not allocated:
        problem = "No hints allocated for zones"
        return ZoneHints(without_hints(changes), {}, problem)

    def hint(endpoint: Endpoint) -> EndpointHints | None:
        if not is_ready(endpoint):
            return None
        zone = zones[key_of_endpoint(endpoint)]
        return EndpointHints(for_zones=(ForZone(name=zone),))

    written = replace(
        changes,
        create=tuple(hinted(each, hint) for each in changes.create),
        update=tuple(hinted(each, hint) for each in (*changes.update, *moved)),
        unchanged=tuple(kept),
    )
    return ZoneHints(written, allocated)


def _ready_in(existing: EndpointSlice) -> int:
    return sum(map(is_ready, existing.endpoints or ()))


def _kept(
    unchanged: Sequence[EndpointSlice], wanted: Mapping[str, Allocation]
) -> tuple[list[EndpointSlice], list[EndpointSlice], dict[str, int]]:
    """Return the slices whose hints still fit, the others, and the hints that stay."""
    kept: list[EndpointSlice] = []
    moved: list[EndpointSlice] = []
    allocated: dict[str, int] = {}
    for each in unchanged:
        hints = _hints_by_zone(each)
        if hints is None or not _fit(hints, allocated, wanted):
            moved.append(each)
            continue
        kept.append(each)
        for zone, count in hints.items():
            allocated[zone] = allocated.get(zone, 0) + count
    return kept, moved, allocated


def _hints_by_zone(existing: EndpointSlice) -> dict[str, int] | None:
    """Return how many hints each zone has; `None` if a ready endpoint has none."""
    found: dict[str, int] = {}
    for endpoint in existing.endpoints or ():
        if not is_ready(endpoint):
            continue
        if endpoint.hints is None or not endpoint.hints.for_zones:
            return None
        for zone in endpoint.hints.for_zones:
            found[zone.name] = found.get(zone.name, 0) + 1
    return found


def _fit(
    hints: Mapping[str, int],
    allocated: Mapping[str, int],
    wanted: Mapping[str, Allocation],
) -> bool:
    """Tell whether these hints leave enough endpoints for every zone."""
    return all(
        zone in wanted and allocated.get(zone, 0) + count <= wanted[zone].maximum
        for zone, count in hints.items()
    )


def _zones_of(
    ready: Sequence[Endpoint],
    wanted: Mapping[str, Allocation],
    allocated: dict[str, int],
) -> dict[object, str]:
    """Return the zone that each endpoint is for; add them to `allocated`."""
    for each in ready:
        zone = each.zone or ""
        allocated[zone] = allocated.get(zone, 0) + 1
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
            allocated[zone] = allocated.get(zone, 0) + 1
        zones[key_of_endpoint(each)] = zone
    return zones
