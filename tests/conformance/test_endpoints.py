"""The endpoints of services are compared without what chance decides."""

from typing import Any

from controller_manager.api.json_objects import JSON
from tests.conformance.endpoints import in_order, packed
from tests.conformance.whole import WholeForm

TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"


def endpoint(number: int) -> JSON:
    return {"addresses": [f"10.0.0.{number}"], "conditions": {"ready": True}}


def slice_of(*numbers: int, **metadata: Any) -> JSON:
    return {
        "metadata": {"name": "web-abc", **metadata},
        "endpoints": [endpoint(each) for each in numbers],
        "ports": [{"name": "b", "port": 2}, {"name": "a", "port": 1}],
    }


def test_the_endpoints_and_ports_of_a_slice_are_sets() -> None:
    """A generated name is not told from a given one."""
    assert in_order("EndpointSlice", slice_of(3, 1, 2, generateName="web-")) == {
        "metadata": {"name": "web-abc"},
        "endpoints": [endpoint(1), endpoint(2), endpoint(3)],
        "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}],
    }


def test_the_parts_of_endpoints_are_sets() -> None:
    first = {"addresses": [{"ip": "2"}, {"ip": "1"}], "ports": [{"port": 9}]}
    second = {"notReadyAddresses": [{"ip": "3"}], "ports": [{"port": 8}, {"port": 7}]}
    endpoints = {"metadata": {"name": "web"}, "subsets": [first, second]}
    assert in_order("Endpoints", endpoints) == {
        "metadata": {"name": "web"},
        "subsets": [
            {"notReadyAddresses": [{"ip": "3"}], "ports": [{"port": 7}, {"port": 8}]},
            {"addresses": [{"ip": "1"}, {"ip": "2"}], "ports": [{"port": 9}]},
        ],
    }


def test_packed_slices_count_and_all_endpoints_stand_together() -> None:
    slices = [
        slice_of(1, 2, annotations={TRIGGER: "now"}),
        slice_of(3, annotations={TRIGGER: "now", "mine": "yes"}),
    ]
    form = WholeForm(["EndpointSlice", "Endpoints"], pack=True)
    lists: dict[str, list[JSON]] = {"EndpointSlice": slices, "Endpoints": []}
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    assert form.state(lists) == {
        "Endpoints": [],
        "Event": [],
        "EndpointSlice": [
            {
                "endpoints": [{"addresses": ["1 endpoints"]}],
                "metadata": {"name": "web-abc", "annotations": {"mine": "yes"}},
                "ports": ports,
            },
            {
                "endpoints": [endpoint(1), endpoint(2), endpoint(3)],
                "metadata": {"name": "EVERY"},
            },
            {
                "endpoints": [{"addresses": ["2 endpoints"]}],
                "metadata": {"name": "web-abc"},
                "ports": ports,
            },
        ],
    }


def test_of_a_crowd_only_the_number_is_shown() -> None:
    """Of slices and of Endpoints, if there are more than fifty."""
    addresses = [{"ip": f"10.0.0.{each}", "nodeName": "n"} for each in range(51)]
    few = [{"ip": "10.0.1.1", "nodeName": "n"}]
    subsets = [{"addresses": addresses, "notReadyAddresses": few}]
    lists = {
        "EndpointSlice": [slice_of(*range(51))],
        "Endpoints": [{"metadata": {"name": "web"}, "subsets": subsets}],
    }
    found = packed(lists)
    crowd = [{"ip": "51 of them", "nodeName": "n"}]
    assert found["Endpoints"][0]["subsets"] == [
        {"addresses": crowd, "notReadyAddresses": few}
    ]
    assert found["EndpointSlice"][1]["endpoints"] == [
        {"addresses": ["51 of them"], "conditions": {"ready": True}}
    ]
