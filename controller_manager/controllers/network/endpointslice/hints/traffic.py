"""The hints of ``spec.trafficDistribution`` (trafficdist.go)."""

from controller_manager.api.discovery.v1 import (
    Endpoint,
    EndpointHints,
    EndpointSlice,
    ForNode,
    ForZone,
)
from controller_manager.control.endpoints.slices.changes import Changes
from controller_manager.controllers.network.endpointslice.hints.mode import (
    PREFER_SAME_NODE,
)
from controller_manager.controllers.network.endpointslice.hints.slices import (
    Hint,
    is_ready,
    rehinted,
)


def with_traffic_hints(
    changes: Changes, distribution: str, checked: frozenset[str]
) -> Changes:
    """Return changes with the hints of a traffic distribution.

    Every ready endpoint is for the clients of its zone; with PreferSameNode for those
    of its node, too. The slices called `checked` are known to have these hints.
    """
    hint = _hint_for_node if distribution == PREFER_SAME_NODE else _hint_for_zone
    return rehinted(
        changes,
        hint,
        lambda each: each.metadata.name not in checked and _has_wrong_hint(each, hint),
    )


def _has_wrong_hint(existing: EndpointSlice, hint: Hint) -> bool:
    """Tell whether a ready endpoint has other hints; the others do not matter."""
    return any(
        is_ready(each) and each.hints != hint(each) for each in existing.endpoints or ()
    )


def _hint_for_zone(endpoint: Endpoint) -> EndpointHints | None:
    if not is_ready(endpoint) or endpoint.zone is None:
        return None
    return EndpointHints(for_zones=(ForZone(name=endpoint.zone),))


def _hint_for_node(endpoint: Endpoint) -> EndpointHints | None:
    if not is_ready(endpoint) or endpoint.node_name is None:
        return _hint_for_zone(endpoint)
    zones = None if endpoint.zone is None else (ForZone(name=endpoint.zone),)
    return EndpointHints(for_zones=zones, for_nodes=(ForNode(name=endpoint.node_name),))
