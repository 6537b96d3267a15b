"""Objects of a kind with a schema, from the request to the table."""

import copy
import json
from typing import Any

import msgspec
import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import TOKEN, Cluster
from tests.devcluster.registry.apiextensions.test_definitions import (
    DEFINITIONS,
    define,
    spec,
    version,
)
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime


PATH = "/apis/example.com/v1/namespaces/default/widgets"
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
TEXT: JSON = {"type": "string"}

SCHEMA: JSON = {
    "type": "object",
    "description": "A widget.",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["color"],
            "properties": {
                "color": {"type": "string", "enum": ["red", "blue"]},
                "size": {"type": "integer", "minimum": 0, "default": 1},
                "ready": {"type": "boolean"},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "selector": TEXT,
                "phase": {"type": "string", "enum": ["New", "Old"]},
                "since": {"type": "string", "format": "date-time"},
                "conditions": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"type": TEXT, "status": TEXT},
                    },
                },
            },
        },
    },
}
COLUMNS = [
    {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Since", "type": "date", "jsonPath": ".status.since"},
    {
        "name": "Ready",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
        "description": "Whether it is ready.",
        "priority": 1,
    },
]
SCALE = {
    "specReplicasPath": ".spec.size",
    "statusReplicasPath": ".status.size",
    "labelSelectorPath": ".status.selector",
}


def widgets(**more: Any) -> JSON:
    return spec(
        version(
            schema={"openAPIV3Schema": SCHEMA},
            subresources={"status": {}, "scale": SCALE},
            additionalPrinterColumns=COLUMNS,
            selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.ready"}],
        ),
        **more,
    )


def widget(name: str = "a", **fields: Any) -> bytes:
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"color": "red", **fields},
    }
    return msgspec.json.encode(body)


def decoded(answer: Response) -> Any:
    return msgspec.json.decode(answer.body)


async def change(cluster: Cluster, path: str, **body: Any) -> Response:
    patch = msgspec.json.encode(body)
    return await call(cluster, "PATCH", path, patch, content_type=MERGE)


async def test_an_object_is_pruned_completed_and_stored(cluster: Cluster) -> None:
    """The answer tells of the unknown fields; strict validation refuses them."""
    await define(cluster, widgets())
    answer = await call(cluster, "POST", PATH, widget(odd=1))
    assert answer.status == 201
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.odd\\""'
    assert decoded(answer)["spec"] == {"color": "red", "size": 1}
    strict = await call(
        cluster, "POST", f"{PATH}?fieldValidation=Strict", widget("b", odd=1)
    )
    assert strict.status == 400
    assert decoded(strict)["message"] == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: '
        'unknown field "spec.odd"'
    )


async def test_a_wrong_object_is_refused_with_all_its_causes(cluster: Cluster) -> None:
    """Each with its field; nothing is stored."""
    await define(cluster, widgets())
    answer = await call(cluster, "POST", PATH, widget(color="green", size=-1))
    assert answer.status == 422
    assert decoded(answer)["details"]["causes"] == [
        {
            "reason": "FieldValueNotSupported",
            "message": 'Unsupported value: "green": supported values: "red", "blue"',
            "field": "spec.color",
        },
        {
            "reason": "FieldValueInvalid",
            "message": (
                "Invalid value: -1: spec.size in body should be greater than or equal "
                "to 0"
            ),
            "field": "spec.size",
        },
        {
            "reason": "FieldValueInvalid",
            "message": "Invalid value: -1: should be a non-negative integer",
            "field": ".spec.size",
        },
    ]
    assert decoded(await call(cluster, "GET", PATH))["items"] == []


async def test_metadata_of_a_wrong_type_is_refused(cluster: Cluster) -> None:
    """As for all kinds; fields of it that do not exist are pruned."""
    await define(cluster, widgets())
    body = msgspec.json.decode(widget())
    body["metadata"]["labels"] = {"a": 1}
    answer = await call(cluster, "POST", PATH, msgspec.json.encode(body))
    assert answer.status == 400
    body["metadata"]["labels"], body["metadata"]["odd"] = {"a": "1"}, "x"
    answer = await call(cluster, "POST", PATH, msgspec.json.encode(body))
    assert answer.headers["warning"] == '299 - "unknown field \\"metadata.odd\\""'


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"metadata": None}, 422),
        ({"metadata": "a"}, 400),
        ({"metadata": {"name": "a", "finalizers": "x"}}, 400),
        ({"spec": None}, 201),
        ({"spec": []}, 422),
        ({"spec": {"color": None}}, 422),
        ({"spec": {"color": "red", "size": None}}, 201),
        ({"spec": {"color": "red", "size": 2**70}}, 422),
        ({"status": None}, 201),
        ({"status": "x"}, 201),
        ({"kind": "Gadget"}, 400),
        ({"apiVersion": "example.com/v9"}, 400),
    ],
)
async def test_odd_objects_are_no_error_of_the_server(
    cluster: Cluster, change: JSON, status: int
) -> None:
    await define(cluster, widgets())
    body = {**msgspec.json.decode(widget()), **change}
    answer = await call(cluster, "POST", PATH, json.dumps(body).encode())
    assert answer.status == status, answer.body


async def test_a_status_that_is_null_goes(cluster: Cluster) -> None:
    await define(cluster, widgets())
    await call(cluster, "POST", PATH, widget())
    made = decoded(await change(cluster, f"{PATH}/a/status", status={"size": 1}))
    body = msgspec.json.encode({**made, "status": None})
    answer = decoded(await call(cluster, "PUT", f"{PATH}/a/status", body))
    assert "status" not in answer


@pytest.mark.parametrize("status", [[], {"size": "x"}, {"conditions": [5]}])
async def test_an_odd_status_is_no_error_of_the_server(
    cluster: Cluster, status: Any
) -> None:
    await define(cluster, widgets())
    made = decoded(await call(cluster, "POST", PATH, widget()))
    body = json.dumps({**made, "status": status}).encode()
    answer = await call(cluster, "PUT", f"{PATH}/a/status", body)
    assert answer.status == 422, answer.body
    assert decoded(await call(cluster, "GET", f"{PATH}/a")) == made


async def test_status_and_spec_are_written_apart(cluster: Cluster) -> None:
    await define(cluster, widgets())
    await call(cluster, "POST", PATH, widget())
    await change(cluster, f"{PATH}/a", spec={"size": 2}, status={"phase": "New"})
    metadata = {"labels": {"a": "b"}}
    answer = await change(
        cluster,
        f"{PATH}/a/status",
        spec={"size": 5},
        status={"phase": "Old"},
        metadata=metadata,
    )
    stored = decoded(answer)
    assert stored["spec"] == {"color": "red", "size": 2}
    assert stored["status"] == {"phase": "Old"}
    assert "labels" not in stored["metadata"]
    assert stored["metadata"]["generation"] == 2
    wrong = await change(cluster, f"{PATH}/a/status", status={"phase": "Odd"})
    assert decoded(wrong)["message"] == (
        'Widget.example.com "a" is invalid: status.phase: Unsupported value: "Odd": '
        'supported values: "New", "Old"'
    )


async def test_the_scale_is_a_view_of_an_object(cluster: Cluster) -> None:
    """It reads and writes the fields that the definition names."""
    await define(cluster, widgets())
    await call(cluster, "POST", PATH, widget())
    status = {"size": 1, "selector": "app=a"}
    await change(cluster, f"{PATH}/a/status", status=status)
    answer = await change(cluster, f"{PATH}/a/scale", spec={"replicas": 3})
    scale = decoded(answer)
    assert (scale["spec"], scale["status"]) == (
        {"replicas": 3},
        {"replicas": 1, "selector": "app=a"},
    )
    assert decoded(await call(cluster, "GET", f"{PATH}/a"))["spec"]["size"] == 3


async def test_a_put_needs_the_version_that_it_replaces(cluster: Cluster) -> None:
    await define(cluster, widgets())
    await call(cluster, "POST", PATH, widget())
    answer = await call(cluster, "PUT", f"{PATH}/a", widget(size=3))
    assert answer.status == 422
    causes = decoded(answer)["details"]["causes"]
    assert [each["field"] for each in causes] == ["metadata.resourceVersion"]


async def test_the_table_has_the_columns_of_the_definition(cluster: Cluster) -> None:
    await define(cluster, widgets())
    for name in ("a", "b"):
        await call(cluster, "POST", PATH, widget(name))
    ready = [{"type": "Other", "status": "x"}, {"type": "Ready", "status": "True"}]
    status = {"conditions": ready, "since": "2025-12-31T23:00:00Z"}
    await change(cluster, f"{PATH}/a/status", status=status)
    table = decoded(await call(cluster, "GET", PATH, accept=TABLE))
    assert [each["cells"] for each in table["rows"]] == [
        ["a", "red", 1, "60m", "True"],
        ["b", "red", 1, None, None],
    ]
    *_, last = table["columnDefinitions"]
    assert last == {
        "name": "Ready",
        "type": "string",
        "format": "",
        "description": "Whether it is ready.",
        "priority": 1,
    }
    assert table["columnDefinitions"][1]["description"] == (
        "Custom resource definition column (in JSONPath format): .spec.color"
    )


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("spec.color=red", ["a"]),
        ("spec.color!=red", ["b"]),
        ("spec.ready=true", ["b"]),
        ("spec.ready=", ["a"]),
        ("metadata.name=a,spec.color=red", ["a"]),
    ],
)
async def test_selectable_fields_select(
    cluster: Cluster, selector: str, found: list[str]
) -> None:
    """Those that the definition names; others are refused."""
    await define(cluster, widgets())
    await call(cluster, "POST", PATH, widget("a"))
    await call(cluster, "POST", PATH, widget("b", color="blue", ready=True))
    answer = await call(cluster, "GET", f"{PATH}?fieldSelector={selector}")
    names = [each["metadata"]["name"] for each in decoded(answer)["items"]]
    assert names == found
    other = await call(cluster, "GET", f"{PATH}?fieldSelector=spec.size=1")
    assert decoded(other)["message"] == "field label not supported: spec.size"


async def test_each_version_shows_objects_by_its_own_schema(cluster: Cluster) -> None:
    other = copy.deepcopy(SCHEMA)
    other["properties"]["spec"]["properties"] = {
        "color": TEXT,
        "shape": {**TEXT, "default": "round"},
    }
    old = version(
        "v1beta1", schema={"openAPIV3Schema": other}, deprecated=True, storage=False
    )
    await define(cluster, {**widgets(), "versions": [*widgets()["versions"], old]})
    await call(cluster, "POST", PATH, widget())
    beta = PATH.replace("/v1/", "/v1beta1/")
    answer = await call(cluster, "GET", f"{beta}/a")
    assert decoded(answer)["apiVersion"] == "example.com/v1beta1"
    assert decoded(answer)["spec"] == {"color": "red", "shape": "round"}
    assert answer.headers["warning"] == (
        '299 - "example.com/v1beta1 Widget is deprecated"'
    )
    (item,) = decoded(await call(cluster, "GET", beta))["items"]
    assert item["spec"] == {"color": "red", "shape": "round"}


async def test_fields_select_objects_as_their_version_shows_them(
    cluster: Cluster,
) -> None:
    other = copy.deepcopy(SCHEMA)
    other["properties"]["spec"]["properties"]["shape"] = {**TEXT, "default": "round"}
    second = version(
        "v2",
        schema={"openAPIV3Schema": other},
        storage=False,
        selectableFields=[{"jsonPath": ".spec.shape"}],
    )
    await define(cluster, {**widgets(), "versions": [*widgets()["versions"], second]})
    path = PATH.replace("/v1/", "/v2/")
    selector = (("fieldSelector", "spec.shape=round"),)
    watch = Request(
        "GET",
        path,
        query=(("watch", "true"), *selector),
        headers={"authorization": f"Bearer {TOKEN}"},
    )
    answer = await cluster.server.handle(watch)
    assert not isinstance(answer, Response)
    chunks = answer.chunks()
    await call(cluster, "POST", PATH, widget("a"))
    added = msgspec.json.decode(await anext(chunks))
    found = decoded(
        await call(cluster, "GET", f"{path}?fieldSelector=spec.shape=round")
    )
    none = await call(cluster, "GET", f"{path}?fieldSelector=spec.shape=")
    await call(cluster, "DELETE", f"{path}?fieldSelector=spec.shape=round")
    deleted = msgspec.json.decode(await anext(chunks))
    await chunks.aclose()
    assert [each["metadata"]["name"] for each in found["items"]] == ["a"]
    assert decoded(none)["items"] == []
    assert [
        (each["type"], each["object"]["apiVersion"], each["object"]["spec"]["shape"])
        for each in (added, deleted)
    ] == [("ADDED", "example.com/v2", "round"), ("DELETED", "example.com/v2", "round")]


async def test_a_new_schema_holds_for_objects_that_are_stored(cluster: Cluster) -> None:
    """They get its defaults when they are read, and are checked when they change."""
    await define(cluster, widgets())
    await call(cluster, "POST", PATH, widget())
    given = widgets()["versions"]
    fields = given[0]["schema"]["openAPIV3Schema"] = copy.deepcopy(SCHEMA)
    inner = fields["properties"]["spec"]["properties"]
    inner["shape"] = {**TEXT, "default": "round"}
    inner["color"] = {"type": "string", "enum": ["blue"]}
    crd = f"{DEFINITIONS}/widgets.example.com"
    await change(cluster, crd, spec={"versions": given})
    stored = decoded(await call(cluster, "GET", f"{PATH}/a"))
    assert stored["spec"] == {"color": "red", "size": 1, "shape": "round"}
    # Stored values may stay; changed values must be valid.
    assert (await change(cluster, f"{PATH}/a", spec={"size": 2})).status == 200
    refused = await call(cluster, "POST", PATH, widget("b"))
    assert refused.status == 422


async def test_an_update_that_changes_nothing_is_no_change(cluster: Cluster) -> None:
    await define(cluster, widgets())
    made = decoded(await call(cluster, "POST", PATH, widget()))
    again = decoded(await change(cluster, f"{PATH}/a", spec={"odd": 1}))
    assert again == made


async def test_openapi_describes_the_kind(cluster: Cluster) -> None:
    """In version 3 as it is; its address changes with it, since clients cache it."""
    await define(cluster, widgets())
    before = decoded(await call(cluster, "GET", "/openapi/v3"))["paths"]
    document = decoded(await call(cluster, "GET", "/openapi/v3/apis/example.com/v1"))
    found = document["components"]["schemas"]["com.example.v1.Widget"]
    assert found["description"] == "A widget."
    assert found["properties"]["spec"] == SCHEMA["properties"]["spec"]
    assert found["x-kubernetes-group-version-kind"] == [
        {"group": "example.com", "kind": "Widget", "version": "v1"}
    ]
    given = widgets()["versions"]
    given[0]["schema"]["openAPIV3Schema"] = {**SCHEMA, "description": "Another."}
    crd = f"{DEFINITIONS}/widgets.example.com"
    await change(cluster, crd, spec={"versions": given})
    after = decoded(await call(cluster, "GET", "/openapi/v3"))["paths"]
    changed = {each for each in after if before[each] != after[each]}
    assert changed == {"apis/example.com/v1"}


async def test_openapi_of_version_2_omits_unsupported_parts(cluster: Cluster) -> None:
    fields = {
        "a": {**TEXT, "nullable": True},
        "b": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, TEXT]},
        "c": {"type": "object", "additionalProperties": TEXT},
    }
    schema = {"type": "object", "properties": fields}
    await define(cluster, spec(version(schema={"openAPIV3Schema": schema})))
    document = decoded(await call(cluster, "GET", "/openapi/v2"))
    found = document["definitions"]["com.example.v1.Widget"]["properties"]
    assert {name: found[name] for name in "abc"} == {
        "a": {},
        "b": {"x-kubernetes-int-or-string": True},
        "c": {"type": "object", "additionalProperties": TEXT},
    }
