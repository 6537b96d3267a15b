"""The clients that should use an endpoint."""

from collections.abc import Iterable

import msgspec
import pytest
from msgspec.structs import replace

from controller_manager.api.core.v1 import Node
from controller_manager.api.discovery.v1 import (
    Endpoint,
    EndpointHints,
    EndpointSlice,
    ForNode,
    ForZone,
)
from controller_manager.api.json_objects import JSON
from controller_manager.control.endpoints.slices import SliceActions
from controller_manager.controllers.network.endpointslice.hints import (
    distribution_of,
    is_by_topology,
    with_traffic_hints,
    without_hints,
)
from controller_manager.controllers.network.endpointslice.topology_cache import (
    Allocation,
    TooFewEndpoints,
    TopologyHints,
    allocations,
    is_overloaded,
    transfers,
    with_zone_hints,
    zone_shares,
)
from tests.control.endpoints.objects import endpoint, endpoint_slice, service

NONE: frozenset[str] = frozenset()


def zoned(number: int, zone: str, hint: str = "", *, ready: bool = True) -> Endpoint:
    made = endpoint(f"10.1.0.{number}", ready=ready, nodeName=f"n{number}")
    hints = EndpointHints(for_zones=(ForZone(name=hint),)) if hint else None
    return replace(made, zone=zone or None, hints=hints)


def hints_of(slices: Iterable[EndpointSlice]) -> list[str]:
    found = []
    for each in slices:
        for one in each.endpoints or ():
            hints = one.hints or EndpointHints()
            zones = [zone.name for zone in hints.for_zones or ()]
            nodes = [node.name for node in hints.for_nodes or ()]
            found.append(" ".join((*zones, *nodes)))
    return found


@pytest.mark.parametrize(
    ("annotations", "distribution", "by_topology", "applies"),
    [
        ({}, None, False, ""),
        ({"service.kubernetes.io/topology-mode": "Auto"}, None, True, ""),
        ({"service.kubernetes.io/topology-mode": "auto"}, "PreferClose", True, ""),
        (
            {"service.kubernetes.io/topology-mode": "Disabled"},
            "PreferClose",
            False,
            "PreferClose",
        ),
        ({"service.kubernetes.io/topology-aware-hints": "auto"}, None, True, ""),
        (
            {
                "service.kubernetes.io/topology-aware-hints": "Disabled",
                "service.kubernetes.io/topology-mode": "Auto",
            },
            "PreferSameNode",
            False,
            "PreferSameNode",
        ),
        ({}, "PreferSameZone", False, "PreferSameZone"),
        ({}, "example.com/other", False, ""),
    ],
)
def test_an_annotation_wins_over_the_traffic_distribution(
    annotations: JSON, distribution: str | None, by_topology: bool, applies: str
) -> None:
    made = service(trafficDistribution=distribution)
    metadata = msgspec.convert(
        {"name": "web", "annotations": annotations}, type(made.metadata)
    )
    annotated = replace(made, metadata=metadata)
    assert is_by_topology(annotated) is by_topology
    assert distribution_of(annotated) == applies


def test_a_traffic_distribution_hints_at_the_zone_of_each_ready_endpoint() -> None:
    new = endpoint_slice("", zoned(1, "a"), zoned(2, ""), zoned(3, "b", ready=False))
    changes = SliceActions(create=(new,))
    close = with_traffic_hints(changes, "PreferClose", NONE)
    assert hints_of(close.create) == ["a", "", ""]
    zone = with_traffic_hints(changes, "PreferSameZone", NONE)
    assert hints_of(zone.create) == ["a", "", ""]
    node = with_traffic_hints(changes, "PreferSameNode", NONE)
    assert hints_of(node.create) == ["a n1", "n2", ""]


def test_slices_with_wrong_hints_are_written_though_their_endpoints_stay() -> None:
    right = endpoint_slice("right", zoned(1, "a", "a"), zoned(2, "a", "z", ready=False))
    wrong = endpoint_slice("wrong", zoned(3, "a", "z"))
    missing = endpoint_slice("missing", zoned(4, "a"))
    changes = SliceActions(unchanged=(right, wrong, missing))
    hinted = with_traffic_hints(changes, "PreferClose", NONE)
    assert hinted.unchanged == (right,)
    assert hints_of(hinted.update) == ["a", "a"]
    checked = with_traffic_hints(changes, "PreferClose", frozenset(("wrong",)))
    assert [each.metadata.name for each in checked.update] == ["missing"]


def test_node_hints_are_removed_with_the_preference() -> None:
    hints = EndpointHints(
        for_zones=(ForZone(name="a"),), for_nodes=(ForNode(name="n1"),)
    )
    old = endpoint_slice("s", replace(zoned(1, "a"), hints=hints))
    changes = with_traffic_hints(SliceActions(unchanged=(old,)), "PreferClose", NONE)
    assert hints_of(changes.update) == ["a"]


def test_hints_are_removed_from_all_slices_if_the_service_asks_for_none() -> None:
    old = endpoint_slice("old", zoned(1, "a", "a"))
    plain = endpoint_slice("plain", zoned(2, "a"))
    changes = without_hints(SliceActions(update=(old,), unchanged=(old, plain)), NONE)
    assert hints_of(changes.update) == ["", ""]
    assert changes.unchanged == (plain,)


def node(
    zone: str, cpu: str | float = "4", *, ready: bool = True, **labels: str
) -> Node:
    body = {
        "metadata": {"labels": {"topology.kubernetes.io/zone": zone, **labels}},
        "status": {
            "allocatable": {"cpu": cpu},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }
    return msgspec.convert(body, Node)


CONTROL_PLANE: JSON = {"node-role.kubernetes.io/control-plane": ""}


@pytest.mark.parametrize(
    ("nodes", "shares"),
    [
        ([node("a"), node("b")], {"a": 0.5, "b": 0.5}),
        ([node("a", "3000m"), node("b", "1")], {"a": 0.75, "b": 0.25}),
        ([node("a"), node("a"), node("b")], {"a": 2 / 3, "b": 1 / 3}),
        ([node("a", 3), node("b", 1.0)], {"a": 0.75, "b": 0.25}),
        ([node("a"), node("b"), node("", ready=False)], {"a": 0.5, "b": 0.5}),
        ([node("a"), node("b"), node("", **CONTROL_PLANE)], {"a": 0.5, "b": 0.5}),
        ([node("a"), node("b"), node("")], None),
        ([node("a"), node("b"), node("c", "0")], None),
        ([node("a"), node("b"), node("c", "")], None),
        ([node("a"), node("b"), node("c", "many")], None),
        ([node("a"), node("a")], None),
        ([], None),
    ],
)
def test_shares_follow_cpus(nodes: list[Node], shares: dict[str, float] | None) -> None:
    assert zone_shares(nodes) == shares


HALVES = {"a": 0.5, "b": 0.5}
NO_NODE_INFORMATION = (
    "Insufficient Node information: allocatable CPU or zone not specified on one or "
    "more nodes"
)
UNABLE = (
    "Unable to allocate minimum required endpoints to each zone without exceeding "
    "overload threshold (3 endpoints, 2 zones)"
)


def test_each_zone_gets_so_many_endpoints_that_none_is_overloaded() -> None:
    assert allocations(HALVES, 4) == {
        "a": Allocation(2, 2, 2.0),
        "b": Allocation(2, 2, 2.0),
    }
    assert allocations({"a": 0.75, "b": 0.25}, 10) == {
        "a": Allocation(7, 7, 7.5),
        "b": Allocation(3, 3, 3.0),
    }


@pytest.mark.parametrize(
    ("shares", "endpoints", "message"),
    [
        (None, 4, NO_NODE_INFORMATION),
        (HALVES, 1, "Insufficient number of endpoints (1 endpoints, 2 zones)"),
        (HALVES, 3, UNABLE),
    ],
)
def test_too_few_endpoints_are_not_shared(
    shares: dict[str, float] | None, endpoints: int, message: str
) -> None:
    with pytest.raises(TooFewEndpoints) as caught:
        allocations(shares, endpoints)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("allocated", "giving", "receiving"),
    [
        ({"a": 2, "b": 2}, {}, {}),
        ({"a": 4}, {"a": 2}, {"b": 2}),
        ({"a": 3, "b": 1}, {"a": 1}, {"b": 1}),
    ],
)
def test_zones_with_too_many_endpoints_give_some_to_others(
    allocated: dict[str, int], giving: dict[str, int], receiving: dict[str, int]
) -> None:
    found = transfers(allocated, allocations(HALVES, 4))
    assert found == (giving, receiving)


def best(**zones: float) -> dict[str, Allocation]:
    return {zone: Allocation(0, 0, desired) for zone, desired in zones.items()}


@pytest.mark.parametrize(
    ("wanted", "allocated", "giving", "receiving"),
    [
        (best(), {}, {}, {}),
        (best(a=1.2, b=1.1, c=1.0), {"a": 1, "b": 1, "c": 1}, {}, {}),
        # An endpoint stays in its zone although the shares would fit a little better.
        (best(a=5.1, b=5.1, c=5.8), {"a": 16}, {"a": 10}, {"b": 5, "c": 5}),
        # The zone with the largest lack gets the endpoint.
        (best(a=5.0, b=5.6, c=5.4), {"a": 16}, {"a": 11}, {"b": 6, "c": 5}),
        # The zone with the largest surplus gives an endpoint.
        (best(a=5.0, b=5.6, c=5.4), {"b": 8, "c": 8}, {"b": 2, "c": 3}, {"a": 5}),
        # More endpoints than all zones want.
        (best(a=5.0, b=5.0, c=5.0), {"a": 6, "b": 6, "c": 6}, {}, {}),
        # Fewer endpoints than all zones want.
        (best(a=5.0, b=5.0, c=5.0), {"a": 1, "b": 2, "c": 3}, {}, {}),
    ],
)
def test_endpoints_change_zones_as_in_upstreams_own_cases(
    wanted: dict[str, Allocation],
    allocated: dict[str, int],
    giving: dict[str, int],
    receiving: dict[str, int],
) -> None:
    assert transfers(allocated, wanted) == (giving, receiving)


def test_three_zones_share_new_and_changed_slices_as_upstreams_do() -> None:
    changes = SliceActions(
        create=(
            endpoint_slice("", zoned(1, "a"), zoned(2, "b")),
            endpoint_slice("", zoned(3, "c"), zoned(4, "c"), zoned(5, "a")),
        ),
        update=(
            endpoint_slice("one", zoned(6, "a"), zoned(7, "a")),
            endpoint_slice("two", zoned(8, "b"), zoned(9, "c"), zoned(10, "a")),
        ),
    )
    result = with_zone_hints(changes, {"a": 0.35, "b": 0.35, "c": 0.3})
    assert hints_of(result.changes.create) == ["b", "b", "c", "c", "a"]
    assert hints_of(result.changes.update) == ["a", "a", "b", "c", "a"]
    assert result.allocated == {"a": 4, "b": 3, "c": 3}


@pytest.mark.parametrize(
    ("allocated", "shares", "answer"),
    [
        ({}, HALVES, False),
        ({"a": 2, "b": 2}, HALVES, False),
        ({"a": 3, "b": 1}, HALVES, True),
        ({"a": 4}, HALVES, True),
        ({"a": 2, "b": 2}, None, True),
        ({"a": 2, "b": 2}, {**HALVES, "c": 0.5}, True),
    ],
)
def test_hints_are_checked_when_the_shares_change(
    allocated: dict[str, int], shares: dict[str, float] | None, answer: bool
) -> None:
    assert is_overloaded(allocated, shares) is answer


def test_endpoints_are_for_their_own_zone_if_the_shares_fit() -> None:
    new = endpoint_slice(
        "",
        *(zoned(each, "ab"[each % 2]) for each in range(4)),
        zoned(9, "", ready=False),
    )
    result = with_zone_hints(SliceActions(create=(new,)), HALVES)
    assert hints_of(result.changes.create) == ["a", "b", "a", "b", ""]
    assert (result.allocated, result.problem) == ({"a": 2, "b": 2}, "")


def test_endpoints_are_for_another_zone_if_that_has_too_few() -> None:
    new = endpoint_slice("", *(zoned(each, "a") for each in range(4)))
    result = with_zone_hints(SliceActions(create=(new,)), HALVES)
    assert hints_of(result.changes.create) == ["b", "b", "a", "a"]
    assert result.allocated == {"a": 2, "b": 2}


def test_slices_keep_hints_that_fit_and_get_others_if_they_do_not() -> None:
    fit = endpoint_slice("fit", zoned(1, "a", "a"), zoned(2, "b", "b"))
    without = endpoint_slice("without", zoned(3, "a", "a"), zoned(4, "b"))
    strange = endpoint_slice("strange", zoned(5, "a", "z"), zoned(6, "b", "b"))
    result = with_zone_hints(SliceActions(unchanged=(fit, without, strange)), HALVES)
    assert result.changes.unchanged == (fit,)
    assert hints_of(result.changes.update) == ["a", "b", "a", "b"]
    assert result.allocated == {"a": 3, "b": 3}


def test_an_endpoint_without_a_zone_removes_all_hints() -> None:
    old = endpoint_slice("old", zoned(1, "a", "a"), zoned(2, "b", "b"))
    new = endpoint_slice("", zoned(3, ""), zoned(4, "b"))
    result = with_zone_hints(SliceActions(create=(new,), unchanged=(old,)), HALVES)
    assert hints_of((*result.changes.create, *result.changes.update)) == [""] * 4
    assert result.problem == "One or more endpoints do not have a zone specified"


def test_events_tell_when_hints_by_topology_begin_and_end() -> None:
    nodes = [node("a"), node("b")]
    hints = TopologyHints(lambda: nodes)
    fits = SliceActions(create=(endpoint_slice("", zoned(1, "a"), zoned(2, "b")),))
    enabled = "Topology Aware Hints has been enabled, addressType: IPv4"
    disabled = "Topology Aware Hints has been disabled, addressType: IPv4"
    too_few = (
        "Insufficient number of endpoints (0 endpoints, 2 zones), addressType: IPv4"
    )
    begun = ("Normal", "TopologyAwareHintsEnabled", enabled)
    assert hints.add("ns/web", "IPv4", fits)[1] == begun
    assert hints.add("ns/web", "IPv4", fits)[1] is None
    refused = ("Warning", "TopologyAwareHintsDisabled", too_few)
    assert hints.add("ns/web", "IPv4", SliceActions())[1] == refused
    assert hints.remove("ns/web", "IPv4") is None
    assert hints.add("ns/web", "IPv4", fits)[1] == begun
    ended = ("Warning", "TopologyAwareHintsDisabled", disabled)
    assert hints.remove("ns/web", "IPv4") == ended
    assert len(hints) == 0


def test_services_are_overloaded_once_the_nodes_have_changed() -> None:
    nodes = [node("a"), node("b")]
    hints = TopologyHints(lambda: nodes)
    fits = SliceActions(create=(endpoint_slice("", zoned(1, "a"), zoned(2, "b")),))
    hints.add("ns/web", "IPv4", fits)
    assert hints.overloaded() == []
    nodes.append(node("c"))
    assert hints.overloaded() == []
    hints.nodes_changed()
    assert hints.overloaded() == ["ns/web"]
    hints.forget("ns/web")
    assert (hints.overloaded(), len(hints)) == ([], 0)
