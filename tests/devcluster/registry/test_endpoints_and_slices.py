"""Endpoints and endpoint slices are checked, and are shown as on a real cluster."""

import json
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create, update
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def slice_of(*addresses: str, **more: Any) -> JSON:
    return {"endpoints": [{"addresses": list(addresses)}], **more}


async def cells(cluster: Cluster, path: str) -> list[Any]:
    answer = await call(cluster, "GET", path, accept=TABLE)
    (row,) = json.loads(answer.body)["rows"]
    shown: list[Any] = row["cells"]
    return shown


async def test_a_slice_has_defaults(cluster: Cluster) -> None:
    """Names and protocols of ports, and conditions; lists that are empty are null."""
    ports = [{"port": 80}]
    created = create(cluster, "EndpointSlice", slice_of("10.0.0.1", ports=ports))
    assert created["endpoints"] == [{"addresses": ["10.0.0.1"], "conditions": {}}]
    assert created["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
    assert created["metadata"]["generation"] == 1
    empty = create(cluster, "EndpointSlice", {"metadata": {"name": "b"}})
    assert (empty["endpoints"], empty["ports"]) == (None, None)


async def test_labels_of_a_slice_count_as_content(cluster: Cluster) -> None:
    """Annotations do not."""
    obj = create(cluster, "EndpointSlice")
    obj = update(cluster, obj, {"metadata": {"annotations": {"a": "b"}}})
    assert obj["metadata"]["generation"] == 1
    obj = update(cluster, obj, {"metadata": {"labels": {"a": "b"}}})
    assert obj["metadata"]["generation"] == 2


async def test_the_address_type_of_a_slice_stays(cluster: Cluster) -> None:
    """It is immutable."""
    obj = create(cluster, "EndpointSlice")
    with pytest.raises(Refusal) as raised:
        update(cluster, obj, {"addressType": "IPv6"})
    assert causes(raised.value) == [
        'addressType: Invalid value: "IPv6": field is immutable'
    ]


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (
            {"addressType": "IP"},
            [
                (
                    'addressType: Unsupported value: "IP": supported values: "FQDN", '
                    '"IPv4", "IPv6"'
                )
            ],
        ),
        (
            {"endpoints": [{}]},
            [
                (
                    "endpoints[0].addresses: Required value: must contain at least 1 "
                    "address"
                )
            ],
        ),
        (
            slice_of("fd00::1"),
            [
                (
                    'endpoints[0].addresses[0]: Invalid value: "fd00::1": must be an '
                    "IPv4 address"
                )
            ],
        ),
        (
            slice_of("10.0.0"),
            [
                (
                    'endpoints[0].addresses[0]: Invalid value: "10.0.0": must be a '
                    "valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
                )
            ],
        ),
        (
            slice_of("169.254.0.1"),
            [
                (
                    'endpoints[0].addresses[0]: Invalid value: "169.254.0.1": may not '
                    "be in the link-local range (169.254.0.0/16, fe80::/10)"
                )
            ],
        ),
        (
            slice_of("web", addressType="FQDN"),
            [
                (
                    'endpoints[0].addresses[0]: Invalid value: "web": should be a '
                    "domain with at least two segments separated by dots"
                )
            ],
        ),
        (
            {"ports": [{"port": 1}, {"port": 2, "protocol": "ICMP"}]},
            [
                'ports[1].name: Duplicate value: ""',
                (
                    'ports[1].protocol: Unsupported value: "ICMP": supported values: '
                    '"SCTP", "TCP", "UDP"'
                ),
            ],
        ),
        (
            {
                "endpoints": [
                    {
                        "addresses": ["10.0.0.1"],
                        "hints": {"forZones": [{"name": "a"}, {"name": "a"}]},
                    }
                ]
            },
            ['endpoints[0].hints.forZones[1].name: Duplicate value: "a"'],
        ),
    ],
)
async def test_the_errors_of_a_slice_are_reported(
    cluster: Cluster, obj: JSON, expected: list[str]
) -> None:
    """With the words of upstream."""
    with pytest.raises(Refusal) as raised:
        create(cluster, "EndpointSlice", obj)
    assert causes(raised.value) == expected


async def test_a_slice_shows_its_first_ports_and_addresses(cluster: Cluster) -> None:
    """And how many there are besides."""
    ports = [{"port": 80}, {"name": "named"}, {"name": "c", "port": 3}, {"name": "d"}]
    addresses = [f"10.0.0.{number}" for number in range(5)]
    create(cluster, "EndpointSlice", slice_of(*addresses, ports=ports))
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    assert await cells(cluster, path) == [
        "a",
        "IPv4",
        "80,named,3 + 1 more...",
        "10.0.0.0,10.0.0.1,10.0.0.2 + 2 more...",
        "0s",
    ]


@pytest.mark.parametrize(
    ("subset", "expected"),
    [
        (
            {"ports": [{"port": 80}]},
            [
                (
                    "subsets[0]: Required value: must specify `addresses` or "
                    "`notReadyAddresses`"
                )
            ],
        ),
        (
            {"addresses": [{"ip": "::"}], "ports": [{"port": 1}, {"port": 0}]},
            [
                (
                    'subsets[0].addresses[0].ip: Invalid value: "::": may not be '
                    "unspecified (::)"
                ),
                "subsets[0].ports[0].name: Required value",
                "subsets[0].ports[1].name: Required value",
                (
                    "subsets[0].ports[1].port: Invalid value: 0: must be between 1 and "
                    "65535, inclusive"
                ),
            ],
        ),
        (
            {"notReadyAddresses": [{"ip": "10.0.0.1", "nodeName": "_"}]},
            ["subsets[0].notReadyAddresses[0].nodeName"],
        ),
    ],
)
async def test_the_errors_of_endpoints_are_reported(
    cluster: Cluster, subset: JSON, expected: list[str]
) -> None:
    """With the words of upstream."""
    with pytest.raises(Refusal) as raised:
        create(cluster, "Endpoints", {"subsets": [subset]})
    found = causes(raised.value)
    assert len(found) == len(expected)
    assert all(map(str.startswith, found, expected))


async def test_endpoints_show_addresses_with_their_ports(cluster: Cluster) -> None:
    """Those without ports alone; addresses of six bytes pairs in brackets."""
    subsets = [
        {"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}]},
        {"addresses": [{"ip": "10.0.0.2"}], "notReadyAddresses": [{"ip": "10.0.0.3"}]},
    ]
    created = create(cluster, "Endpoints", {"subsets": subsets})
    assert created["subsets"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]
    path = "/api/v1/namespaces/default/endpoints"
    shown = "10.0.0.1:80,[fd00::1]:80,10.0.0.2"
    assert await cells(cluster, path) == ["a", shown, "0s"]


async def test_every_answer_about_endpoints_warns(cluster: Cluster) -> None:
    """They are deprecated."""
    create(cluster, "Endpoints")
    warning = (
        '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 '
        'EndpointSlice"'
    )
    path = "/api/v1/namespaces/default/endpoints"
    for where in (path, f"{path}/a"):
        answer = await call(cluster, "GET", where)
        assert answer.headers["warning"] == warning
    body = b'{"metadata":{"name":"b"},"more":1}'
    answer = await call(cluster, "POST", path, body)
    assert answer.headers["warning"] == f'299 - "unknown field \\"more\\"", {warning}'
