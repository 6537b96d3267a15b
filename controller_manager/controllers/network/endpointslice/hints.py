"""The hints of endpoints: which clients should use them (trafficdist.go)."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from controller_manager.api.core.services import Service
from controller_manager.api.discovery import v1
from controller_manager.control.endpoints.slices import SliceActions

Hint = Callable[[v1.Endpoint], v1.EndpointHints | None]

PREFER_SAME_NODE: Final = "PreferSameNode"

DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", PREFER_SAME_NODE)
"""The values that are known."""


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
    return mode in ("Auto", "auto")


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
    wrong = [
        each
        for each in changes.unchanged
        if each.metadata.name not in checked
        and any(
            one.hints != hint(one) for one in filter(is_ready, each.endpoints or ())
        )
    ]
    return rehinted(changes, hint, wrong)


def _hint_for_zone(endpoint: v1.Endpoint) -> v1.EndpointHints | None:
    if not is_ready(endpoint) or endpoint.zone is None:
        return None
    return v1.EndpointHints(for_zones=(v1.ForZone(name=endpoint.zone),))


def _hint_for_node(endpoint: v1.Endpoint) -> v1.EndpointHints | None:
    if not is_ready(endpoint) or endpoint.node_name is None:
        return _hint_for_zone(endpoint)
    zones = None if endpoint.zone is None else (v1.ForZone(name=endpoint.zone),)
    return v1.EndpointHints(
        for_zones=zones, for_nodes=(v1.ForNode(name=endpoint.node_name),)
    )


def without_hints(
    changes: SliceActions, checked: frozenset[str] = frozenset()
) -> SliceActions:
    """Return actions that remove all hints (RemoveHintsFromSlices).

    The slices with the names `checked` are known to have no hints.
    """
    hinted = [
        each
        for each in changes.unchanged
        if each.metadata.name not in checked
        and any(one.hints is not None for one in each.endpoints or ())
    ]
    return rehinted(changes, lambda _: None, hinted)


def is_ready(endpoint: v1.Endpoint) -> bool:
    """Tell whether an endpoint is ready; an unknown condition counts as not ready."""
    return endpoint.conditions.ready is True


def rehinted(
    changes: SliceActions, hint: Hint, wrong: Sequence[v1.EndpointSlice]
) -> SliceActions:
    """Return actions with new hints in all slices that are written.

    The unchanged slices that are `wrong` are written, too.
    """
    unchanged = changes.unchanged
    if wrong:
        unchanged = tuple(each for each in unchanged if each not in wrong)
    return replace(
        changes,
        create=tuple(_hinted(each, hint) for each in changes.create),
        update=tuple(_hinted(each, hint) for each in (*changes.update, *wrong)),
        unchanged=unchanged,
    )


def _hinted(existing: v1.EndpointSlice, hint: Hint) -> v1.EndpointSlice:
    endpoints = tuple(
        each if each.hints == (wanted := hint(each)) else replace(each, hints=wanted)
        for each in existing.endpoints or ()
    )
    return replace(existing, endpoints=endpoints)
