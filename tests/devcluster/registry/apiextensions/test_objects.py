"""Objects of a kind with a schema, from the request to the table."""

import copy
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
from tests.devcluster.rows import parsed

pytestmark = pytest.mark.looptime


PATH = "/apis/example.com/v1/namespaces/default/widgets"
MERGE = "application/merge-patch+json"
TEXT: JSON = {"type": "string"}

SCHEMA: JSON = parsed("""
    type: object
    description: A widget.
    properties:
      spec:
        type: object
        required: [color]
        properties:
          color: {type: string, enum: [red, blue]}
          size: {type: integer, minimum: 0, default: 1}
      status: {type: object, properties: {size: {type: integer}}}""")


def widgets(**more: Any) -> JSON:
    return spec(version(schema={"openAPIV3Schema": SCHEMA}), **more)


def widget(name: str) -> bytes:
    spec = {"color": "red"}
    head = {"apiVersion": "example.com/v1", "kind": "Widget"}
    return msgspec.json.encode({**head, "metadata": {"name": name}, "spec": spec})


def decoded(answer: Response) -> Any:
    return msgspec.json.decode(answer.body)


async def change(cluster: Cluster, path: str, **body: Any) -> Response:
    patch = body
    return await call(cluster, "PATCH", path, patch, content_type=MERGE)


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
