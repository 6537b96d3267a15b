"""Webhooks that convert custom resources between the versions of their definition.

Version v1 has the field ``address``, version v2 has ``host`` and ``port``.
"""

import asyncio
from typing import Any

import msgspec
import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request
from tests.clusters import TOKEN, Cluster
from tests.devcluster.admission.webhook_server import (
    WebhookServer,
    bundle,
    configure,
    webhook_server,
)
from tests.devcluster.registry.apiextensions.test_definitions import (
    DEFINITIONS,
    define,
    spec,
)
from tests.devcluster.requests import MERGE, call
from tests.devcluster.scenarios import play, scenarios

PATH = f"{DEFINITIONS}/widgets.example.com"
TEXT: JSON = {"type": "string"}
FIELDS: dict[str, JSON] = {
    "v1": {"address": TEXT},
    "v2": {"host": TEXT, "port": TEXT, "count": {"type": "integer"}},
}


SCALE: JSON = {
    "scale": {
        "specReplicasPath": ".spec.count",
        "statusReplicasPath": ".status.count",
    }
}


def version(name: str, **more: Any) -> JSON:
    """Return a version with its own schema and a status; v1 is stored."""
    properties: JSON = {
        "spec": {"type": "object", "properties": FIELDS[name]},
        "status": {"type": "object", "properties": {"ready": TEXT}},
    }
    return {
        "name": name,
        "served": True,
        "storage": name == "v1",
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {"status": {}},
        **more,
    }


def converted(obj: JSON, api_version: str) -> JSON:
    """Return an object in another version, as a webhook should.

    The count of v2 is an annotation of v1; the host of v2 is also its label.
    """
    fields, metadata = obj.get("spec") or {}, {**obj["metadata"]}
    if api_version.endswith("v2"):
        host, _, port = fields.get("address", "").partition(":")
        fields = {"host": host, "port": port}
        metadata["labels"] = {"host": host} if host else {}
        if count := metadata.pop("annotations", {}).get("count"):
            fields["count"] = int(count)
    else:
        metadata["labels"] = {}
        if "count" in fields:
            metadata["annotations"] = {"count": str(fields["count"])}
        fields = {"address": f"{fields.get('host', '')}:{fields.get('port', '')}"}
    return {**obj, "apiVersion": api_version, "metadata": metadata, "spec": fields}


def review_of(request: JSON, objects: list[Any], **response: Any) -> JSON:
    result = {"status": "Success"}
    answer = {"uid": request["uid"], "result": result, "convertedObjects": objects}
    head = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1"}
    return {**head, "response": {**answer, **response}}


def reply(request: JSON) -> JSON:
    """Convert what a review asks for."""
    target = request["desiredAPIVersion"]
    return review_of(request, [converted(each, target) for each in request["objects"]])


def conversion(hook: WebhookServer, **client: Any) -> JSON:
    """Return the field of a definition that names a webhook."""
    url = f"https://127.0.0.1:{hook.port}/convert"
    config = {"caBundle": bundle(), "url": url, **client}
    webhook = {"clientConfig": config, "conversionReviewVersions": ["v1"]}
    return {"strategy": "Webhook", "webhook": webhook}


def widgets(hook: WebhookServer) -> JSON:
    """Return the spec of a definition with two versions, v1 stored."""
    fields = [{"jsonPath": ".spec.host"}]
    second = version(
        "v2", selectableFields=fields, subresources={"status": {}, **SCALE}
    )
    return spec(version("v1"), second, conversion=conversion(hook))


def path(version: str, name: str = "") -> str:
    return f"/apis/example.com/{version}/namespaces/default/widgets{name}"


async def send(
    cluster: Cluster, method: str, where: str, body: Any = b"", **headers: str
) -> tuple[int, JSON]:
    answer = await call(cluster, method, where, body, **headers)
    return answer.status, msgspec.json.decode(answer.body)


async def make(cluster: Cluster, version: str, name: str, **fields: Any) -> JSON:
    head = {"apiVersion": f"example.com/{version}", "kind": "Widget"}
    body = {**head, "metadata": {"name": name}, "spec": fields}
    status, made = await send(cluster, "POST", path(version), body)
    assert status == 201, made
    return made


def asked(hook: WebhookServer) -> list[tuple[str, list[str]]]:
    """Return the version and the names in the reviews so far, and forget them."""
    found = [
        (
            each["desiredAPIVersion"].rpartition("/")[2],
            [obj["metadata"]["name"] for obj in each["objects"]],
        )
        for each in hook.requests
    ]
    hook.requests.clear()
    return found


@pytest.mark.parametrize(("case", "values"), scenarios("conversion"))
async def test_a_scenario_is_answered(
    cluster: Cluster, hook: WebhookServer, case: JSON, values: JSON
) -> None:
    await define(cluster, widgets(hook))
    await play(cluster, case, {**values, "port": hook.port})


async def test_an_object_is_shown_in_each_version(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """It is stored in one; the webhook sees it as it is stored in etcd."""
    await define(cluster, widgets(hook))
    made = await make(cluster, "v2", "a", host="h", port="1")
    assert (made["apiVersion"], made["spec"]) == (
        "example.com/v2",
        {"host": "h", "port": "1"},
    )
    assert [to for to, _ in asked(hook)] == ["v1", "v2"]
    (stored,) = cluster.server.storage.collection("widgets.example.com")
    assert (stored.obj["apiVersion"], stored.obj["spec"]) == (
        "example.com/v1",
        {"address": "h:1"},
    )
    status, first = await send(cluster, "GET", path("v1", "/a"))
    assert (status, first["spec"], asked(hook)) == (200, {"address": "h:1"}, [])
    status, second = await send(cluster, "GET", path("v2", "/a"))
    assert (status, second) == (200, made)
    (review,) = hook.requests
    (sent,) = review["objects"]
    metadata = {k: v for k, v in first["metadata"].items() if k != "resourceVersion"}
    assert sent == {**first, "metadata": metadata}


async def test_a_list_is_converted_by_one_call(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """With its objects in order; a page has only its own."""
    await define(cluster, widgets(hook))
    for name in ("c", "a", "b"):
        await make(cluster, "v1", name, address=f"{name}:1")
    assert asked(hook) == []
    _, found = await send(cluster, "GET", path("v2"))
    assert [each["spec"]["host"] for each in found["items"]] == ["a", "b", "c"]
    assert asked(hook) == [("v2", ["a", "b", "c"])]
    _, page = await send(cluster, "GET", path("v2") + "?limit=2")
    assert (len(page["items"]), page["metadata"]["remainingItemCount"]) == (2, 1)
    assert asked(hook) == [("v2", ["a", "b"])]
    more = f"?limit=2&continue={page['metadata']['continue']}"
    _, rest = await send(cluster, "GET", path("v2") + more)
    assert [each["spec"]["host"] for each in rest["items"]] == ["c"]


async def events(cluster: Cluster, where: str, count: int) -> list[JSON]:
    where, _, query = where.partition("?")
    pairs = tuple(tuple(each.split("=")) for each in query.split("&"))
    headers = {"authorization": f"Bearer {TOKEN}"}
    answer = await cluster.server.handle(
        Request("GET", where, query=pairs, headers=headers)  # type: ignore[arg-type]
    )
    found: list[JSON] = []
    async with asyncio.timeout(20):
        async for chunk in answer.chunks():  # type: ignore[union-attr]
            found += map(msgspec.json.decode, chunk.splitlines())
            if len(found) >= count:
                break
    await answer.close()  # type: ignore[union-attr]
    return found


async def test_a_watch_shows_changes_in_its_version(
    cluster: Cluster, hook: WebhookServer
) -> None:
    await define(cluster, widgets(hook))
    await make(cluster, "v1", "a", address="h:1")
    query = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    query += "&allowWatchBookmarks=true"
    watching = asyncio.create_task(events(cluster, path("v2") + query, 4))
    await asyncio.sleep(0.1)
    change = {"spec": {"address": "h:2"}}
    await send(cluster, "PATCH", path("v1", "/a"), change, content_type=MERGE)
    await asyncio.sleep(0.1)
    await send(cluster, "DELETE", path("v1", "/a"))
    found = await watching
    seen = [(each["type"], each["object"].get("spec")) for each in found]
    assert seen == [
        ("ADDED", {"host": "h", "port": "1"}),
        ("BOOKMARK", None),
        ("MODIFIED", {"host": "h", "port": "2"}),
        ("DELETED", {"host": "h", "port": "2"}),
    ]
    assert {each["object"]["apiVersion"] for each in found} == {"example.com/v2"}


async def test_a_watch_ends_with_the_error_of_the_webhook(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """As an event: a client lists again, and sees the same error."""
    await define(cluster, widgets(hook))
    hook.reply = lambda request: review_of(request, [])
    watching = asyncio.create_task(events(cluster, path("v2") + "?watch=true", 1))
    await asyncio.sleep(0.1)
    await make(cluster, "v1", "a", address="h:1")
    ((event,), what) = await watching, "conversion webhook for example.com/v2"
    assert (event["type"], event["object"]["message"]) == (
        "ERROR",
        f"{what}, Kind=WidgetList returned 0 objects, expected 1",
    )


async def test_admission_sees_the_version_that_its_rules_name(
    cluster: Cluster, hook: WebhookServer
) -> None:
    await define(cluster, widgets(hook))

    def patched(_: JSON) -> JSON:
        change = {"op": "add", "path": "/spec/address", "value": "new:7"}
        body = msgspec.json.encode([change])
        encoded = msgspec.json.decode(msgspec.json.encode(body))
        return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}

    async with webhook_server() as admission:
        admission.reply = patched
        rule = {
            "apiGroups": ["example.com"],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["widgets"],
        }
        await configure(cluster, "mutating", "m", admission.config(rules=[rule]))
        made = await make(cluster, "v2", "a", host="h", port="1")
        assert made["spec"] == {"host": "new", "port": "7"}
        (review,) = admission.requests
        assert review["object"]["spec"] == {"address": "h:1"}
