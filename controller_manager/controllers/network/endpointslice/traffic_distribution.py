"""Sets the hints of ``spec.trafficDistribution`` (trafficdist.go)."""

from typing import Final

from controller_manager.api.core.services import Service
from controller_manager.api.discovery.v1 import (
    Endpoint,
    EndpointHints,
    EndpointSlice,
    ForNode,
    ForZone,
)
from controller_manager.control.endpoints.slices.actions import SliceActions

from .hints import Hint, is_ready, rehinted

PREFER_CLOSE: Final = "PreferClose"
PREFER_SAME_ZONE: Final = "PreferSameZone"
PREFER_SAME_NODE: Final = "PreferSameNode"

DISTRIBUTIONS: Final = (PREFER_CLOSE, PREFER_SAME_ZONE, PREFER_SAME_NODE)
"""The values that are known."""
_AUTO: Final = ("Auto", "auto")


def is_by_topology(service: Service) -> bool:
    """Tell whether an annotation asks for a share of the endpoints for each zone.

    The annotation wins over ``spec.trafficDistribution``, and the deprecated annotation
    wins over the other one (hintsEnabled).
    """
    annotations = service.metadata.annotations
    if annotations is None:
        return False
    deprecated = annotations.topology_aware_hints
    mode = annotations.topology_mode if deprecated is None else deprecated
    return mode in _AUTO


def distribution_of(service: Service) -> str:
    """Return the valid traffic distribution of a service, empty for none."""
    distribution = service.spec.traffic_distribution
    if distribution not in DISTRIBUTIONS or is_by_topology(service):
        return ""
    return distribution


def with_traffic_hints(
    changes: SliceActions, distribution: str, checked: frozenset[str]
) -> SliceActions:
    """Return actions with the hints of a traffic distribution.

    Each ready endpoint is for the clients of its zone; with PreferSameNode also for
    those of its node. The slices with the names `checked` are known to have these
    hints.
    """
    hint = _hint_for_node if distribution == PREFER_SAME_NODE else _hint_for_zone
    return rehinted(
        changes,
        hint,
        lambda each: each.metadata.name not in checked and _has_wrong_hint(each, hint),
    )


def _has_wrong_hint(existing: EndpointSlice, hint: Hint) -> bool:
    """Tell whether a ready endpoint has other hints; only ready ones matter."""
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
