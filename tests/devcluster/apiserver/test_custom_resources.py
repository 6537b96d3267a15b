"""The definitions of custom resources, as a real API server publishes them."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RECORDED = Path(__file__).parents[2] / "data" / "openapi"
DEFINITION: JSON = yaml.safe_load((RECORDED / "definition.yaml").read_text())


async def create(cluster: Cluster, definition: JSON) -> None:
    body = definition
    answer = await call(cluster, "POST", DEFINITIONS, body)
    assert answer.status == 201, answer.body


async def change(cluster: Cluster, patch: list[JSON]) -> None:
    path, body = f"{DEFINITIONS}/foos.example.com", msgspec.json.encode(patch)
    form = "application/json-patch+json"
    answer = await call(cluster, "PATCH", path, body, content_type=form)
    assert answer.status == 200, answer.body


async def published(cluster: Cluster) -> dict[str, JSON]:
    """Return the definitions of custom resources in the document of version 2."""
    answer = await call(cluster, "GET", "/openapi/v2")
    found: dict[str, JSON] = json.loads(answer.body)["definitions"]
    return {name: each for name, each in found.items() if name.startswith("com.exa")}


async def test_definitions_are_those_of_a_real_api_server(cluster: Cluster) -> None:
    """In both versions of OpenAPI; 1.36.2 has answered the same definition."""
    await create(cluster, DEFINITION)
    recorded = json.loads((RECORDED / "definitions.json").read_text())
    assert await published(cluster) == recorded["v2"]
    found: dict[str, Any] = {}
    for version in ("v1", "v2"):
        path = f"/openapi/v3/apis/example.com/{version}"
        document = json.loads((await call(cluster, "GET", path)).body)
        found |= document["components"]["schemas"]
    shown = {name: found[name] for name in found if name.startswith("com.example.")}
    assert shown == recorded["v3"]


async def test_the_protobuf_document_has_any_schema(cluster: Cluster) -> None:
    """Kubectl reads it; values of any type are a boolean there."""
    await create(cluster, DEFINITION)
    answer = await call(cluster, "GET", "/openapi/v2", accept="application/x-protobuf")
    assert answer.status == 200
    values = b"\xaa\x01\x02\x10\x01"  # field 21 has field 2, which is true
    assert values in answer.body


async def test_a_version_that_is_renamed_or_not_served_goes(cluster: Cluster) -> None:
    await create(cluster, DEFINITION)
    before = await published(cluster)
    await change(
        cluster, [{"op": "replace", "path": "/spec/versions/1/name", "value": "v4"}]
    )
    renamed = await published(cluster)
    assert sorted(renamed) == [
        "com.example.v1.Foo",
        "com.example.v1.FooList",
        "com.example.v4.Foo",
        "com.example.v4.FooList",
    ]
    assert renamed["com.example.v1.Foo"] == before["com.example.v1.Foo"]
    await change(
        cluster, [{"op": "replace", "path": "/spec/versions/1/served", "value": False}]
    )
    left = await published(cluster)
    assert left == {name: before[name] for name in left}
    assert sorted(left) == ["com.example.v1.Foo", "com.example.v1.FooList"]


async def test_kinds_of_one_group_version_are_all_published(cluster: Cluster) -> None:
    """Each under its own name, and with its paths."""
    await create(cluster, DEFINITION)
    names = {
        "plural": "services",
        "singular": "service",
        "kind": "Service",
        "listKind": "ServiceList",
    }
    schema: JSON = {
        "type": "object",
        "properties": {"spec": {"type": "object", "description": "Of a service."}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    other = {
        **DEFINITION,
        "metadata": {"name": "services.example.com"},
        "spec": {**DEFINITION["spec"], "names": names, "versions": [version]},
    }
    await create(cluster, other)
    found = await published(cluster)
    assert {"com.example.v1.Foo", "com.example.v1.Service"} <= found.keys()
    spec = found["com.example.v1.Service"]["properties"]["spec"]
    assert spec == schema["properties"]["spec"]
    answer = await call(cluster, "GET", "/openapi/v2")
    paths = json.loads(answer.body)["paths"]
    shown = [path for path in paths if "/example.com/v1/" in path]
    assert sorted(shown) == [
        "/apis/example.com/v1/foos",
        "/apis/example.com/v1/namespaces/{namespace}/foos",
        "/apis/example.com/v1/namespaces/{namespace}/foos/{name}",
        "/apis/example.com/v1/namespaces/{namespace}/foos/{name}/scale",
        "/apis/example.com/v1/namespaces/{namespace}/foos/{name}/status",
        "/apis/example.com/v1/namespaces/{namespace}/services",
        "/apis/example.com/v1/namespaces/{namespace}/services/{name}",
        "/apis/example.com/v1/services",
    ]


async def test_the_items_of_a_list_have_kind_and_version(cluster: Cluster) -> None:
    """As the API server sends them; those of built-in kinds have neither."""
    await create(cluster, DEFINITION)
    path = "/apis/example.com/v2/namespaces/default/foos"
    foo = {"apiVersion": "example.com/v2", "kind": "Foo", "metadata": {"name": "a"}}
    answer = await call(cluster, "POST", path, foo)
    assert answer.status == 201, answer.body
    (item,) = json.loads((await call(cluster, "GET", path)).body)["items"]
    assert (item["apiVersion"], item["kind"]) == ("example.com/v2", "Foo")
    listed = json.loads((await call(cluster, "GET", "/api/v1/namespaces")).body)
    assert "kind" not in listed["items"][0]
