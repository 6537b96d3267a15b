"""Configurations are applied as the schema says how lists and maps are merged."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.registry.apiextensions.test_definitions import (
    define,
    spec,
    version,
)
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime


PATH = "/apis/example.com/v1/namespaces/default/widgets/a"
APPLY = "application/apply-patch+yaml"
TEXT: JSON = {"type": "string"}
PORT: JSON = {
    "type": "object",
    "required": ["port"],
    "properties": {
        "port": {"type": "integer"},
        "protocol": {**TEXT, "default": "TCP"},
        "name": TEXT,
    },
}
SCHEMA: JSON = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "ports": {
                    "type": "array",
                    "items": PORT,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                },
                "tags": {
                    "type": "array",
                    "items": TEXT,
                    "x-kubernetes-list-type": "set",
                },
                "words": {"type": "array", "items": TEXT},
                "selector": {
                    "type": "object",
                    "additionalProperties": TEXT,
                    "x-kubernetes-map-type": "atomic",
                },
                "labels": {"type": "object", "additionalProperties": TEXT},
            },
        }
    },
}


async def apply(cluster: Cluster, manager: str, **fields: Any) -> tuple[int, JSON]:
    """Apply a spec; return the status and the body of the answer."""
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "spec": fields}
    answer = await call(
        cluster,
        "PATCH",
        f"{PATH}?fieldManager={manager}",
        msgspec.json.encode(body),
        content_type=APPLY,
    )
    return answer.status, msgspec.json.decode(answer.body)


async def applied(cluster: Cluster, manager: str, **fields: Any) -> JSON:
    status, body = await apply(cluster, manager, **fields)
    assert status in (200, 201), body
    found: JSON = body["spec"]
    return found


async def test_two_managers_share_lists_and_maps(cluster: Cluster) -> None:
    """Fields that one manager gives up are removed; fields of the other one stay."""
    await define(cluster, spec(version(schema={"openAPIV3Schema": SCHEMA})))
    await applied(
        cluster,
        "one",
        ports=[{"port": 80, "name": "web"}],
        tags=["a", "b"],
        labels={"x": "1"},
    )
    found = await applied(
        cluster,
        "two",
        ports=[{"port": 80, "protocol": "UDP"}, {"port": 443}],
        tags=["b", "c"],
        labels={"y": "2"},
    )
    assert found == {
        "ports": [
            {"port": 80, "name": "web", "protocol": "TCP"},
            {"port": 80, "protocol": "UDP"},
            {"port": 443, "protocol": "TCP"},
        ],
        "tags": ["a", "b", "c"],
        "labels": {"x": "1", "y": "2"},
    }
    found = await applied(cluster, "one", tags=["a"])
    assert found == {
        "ports": [{"port": 80, "protocol": "UDP"}, {"port": 443, "protocol": "TCP"}],
        "tags": ["a", "b", "c"],
        "labels": {"y": "2"},
    }


@pytest.mark.parametrize(
    ("first", "second", "fields"),
    [
        (
            {"ports": [{"port": 80, "name": "web"}]},
            {"ports": [{"port": 80, "name": "other"}]},
            ['.spec.ports[port=80,protocol="TCP"].name'],
        ),
        ({"words": ["a"]}, {"words": ["b"]}, [".spec.words"]),
        ({"selector": {"a": "1"}}, {"selector": {"b": "2"}}, [".spec.selector"]),
    ],
)
async def test_a_conflict_names_the_field(
    cluster: Cluster, first: JSON, second: JSON, fields: list[str]
) -> None:
    await define(cluster, spec(version(schema={"openAPIV3Schema": SCHEMA})))
    await applied(cluster, "one", **first)
    status, body = await apply(cluster, "two", **second)
    assert status == 409
    assert [each["field"] for each in body["details"]["causes"]] == fields


async def test_finalizers_of_several_managers_are_kept(cluster: Cluster) -> None:
    await define(cluster, spec(version(schema={"openAPIV3Schema": SCHEMA})))
    for manager in ("one", "two"):
        body = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"finalizers": [f"example.com/{manager}"]},
        }
        path = f"{PATH}?fieldManager={manager}"
        encoded = msgspec.json.encode(body)
        answer = await call(cluster, "PATCH", path, encoded, content_type=APPLY)
    metadata = msgspec.json.decode(answer.body)["metadata"]
    assert metadata["finalizers"] == ["example.com/one", "example.com/two"]


async def test_a_manager_continues_in_another_version(cluster: Cluster) -> None:
    """Its fields of the old version are removed; other managers keep theirs."""
    schema = {"openAPIV3Schema": SCHEMA}
    versions = [version(schema=schema), version("v2", schema=schema)]
    await define(cluster, spec(*versions))

    async def apply_in(name: str, manager: str, **fields: Any) -> JSON:
        body = {"apiVersion": f"example.com/{name}", "kind": "Widget", "spec": fields}
        path = PATH.replace("v1", name) + f"?fieldManager={manager}"
        encoded = msgspec.json.encode(body)
        answer = await call(cluster, "PATCH", path, encoded, content_type=APPLY)
        assert answer.status in (200, 201), answer.body
        found: JSON = msgspec.json.decode(answer.body)
        return found

    await apply_in("v1", "one", tags=["a", "b"], labels={"x": "1"}, words=["w"])
    await apply_in("v1", "two", tags=["b"], labels={"y": "1"})
    found = await apply_in("v2", "one", tags=["a"])
    assert found["apiVersion"] == "example.com/v2"
    assert found["spec"] == {"tags": ["a", "b"], "labels": {"y": "1"}}
    assert [
        (each["manager"], each["apiVersion"], each["fieldsV1"])
        for each in found["metadata"]["managedFields"]
    ] == [
        ("one", "example.com/v2", {"f:spec": {"f:tags": {'v:"a"': {}}}}),
        (
            "two",
            "example.com/v1",
            {"f:spec": {"f:labels": {"f:y": {}}, "f:tags": {'v:"b"': {}}}},
        ),
    ]


async def test_metadata_that_a_manager_gives_up_in_another_version(
    cluster: Cluster,
) -> None:
    """Only its finalizer goes; upstream's e2e applies in two versions, too."""
    schema = {"openAPIV3Schema": SCHEMA}
    versions = [version(schema=schema), version("v2", schema=schema)]
    await define(cluster, spec(*versions))
    found: JSON = {}
    for name, more in (("v1", {"finalizers": ["example.com/a"]}), ("v2", {})):
        body = {
            "apiVersion": f"example.com/{name}",
            "kind": "Widget",
            "metadata": {"name": "a", **more},
            "spec": {"tags": ["a"]},
        }
        path = PATH.replace("v1", name) + "?fieldManager=one"
        encoded = msgspec.json.encode(body)
        answer = await call(cluster, "PATCH", path, encoded, content_type=APPLY)
        assert answer.status in (200, 201), answer.body
        found = msgspec.json.decode(answer.body)
    assert found["spec"] == {"tags": ["a"]}
    assert "finalizers" not in found["metadata"]
    assert found["metadata"]["name"] == "a"


@rows("fields", "refusal")
async def test_a_configuration_fits_the_schema(
    cluster: Cluster, fields: JSON, refusal: str
) -> None:
    properties = SCHEMA["properties"]["spec"]["properties"]
    free = {**properties, "free": {"type": "object"}}
    inner = {**SCHEMA["properties"]["spec"], "properties": free}
    schema = {"type": "object", "properties": {"spec": inner}}
    await define(cluster, spec(version(schema={"openAPIV3Schema": schema})))
    status, body = await apply(cluster, "one", **fields)
    what = "failed to create typed patch object (/; example.com/v1, Kind=Widget)"
    expected = (500, f"{what}: {refusal}") if refusal else (201, None)
    assert (status, body.get("message")) == expected
