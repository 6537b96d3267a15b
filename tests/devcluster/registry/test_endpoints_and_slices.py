"""Endpoints and endpoint slices are checked, and are shown as on a real cluster."""

import json
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.registry.requests import create, update
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


async def test_labels_of_a_slice_count_as_content(cluster: Cluster) -> None:
    obj = create(cluster, "EndpointSlice")
    obj = update(cluster, obj, {"metadata": {"annotations": {"a": "b"}}})
    assert obj["metadata"]["generation"] == 1
    obj = update(cluster, obj, {"metadata": {"labels": {"a": "b"}}})
    assert obj["metadata"]["generation"] == 2


async def test_a_slice_shows_its_first_ports_and_addresses(cluster: Cluster) -> None:
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
