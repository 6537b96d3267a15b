"""Webhooks that convert custom resources between the versions of their definition.

Version v1 has the field ``address``, version v2 has ``host`` and ``port``.
"""

import asyncio
from typing import Any

import msgspec

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
from tests.devcluster.requests import call

PATH = f"{DEFINITIONS}/widgets.example.com"
MERGE = "application/merge-patch+json"
TEXT: JSON = {"type": "string"}
FIELDS: dict[str, JSON] = {
    "v1": {"address": TEXT},
    "v2": {"host": TEXT, "port": TEXT, "count": {"type": "integer"}},
}


def version(name: str, *, storage: bool = False, **more: Any) -> JSON:
    """Return a version with its own schema, a status and a scale."""
    properties: JSON = {
        "spec": {"type": "object", "properties": FIELDS[name]},
        "status": {"type": "object", "properties": {"ready": TEXT}},
    }
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {"status": {}},
        **more,
    }


def converted(obj: JSON, api_version: str) -> JSON:
    """Return an object in another version, as a webhook should."""
    fields = obj.get("spec") or {}
    if api_version.endswith("v2"):
        host, _, port = fields.get("address", "").partition(":")
        fields = {"host": host, "port": port}
    else:
        fields = {"address": f"{fields.get('host', '')}:{fields.get('port', '')}"}
    return {**obj, "apiVersion": api_version, "spec": fields}


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
    if not client:
        client = {"url": f"https://127.0.0.1:{hook.port}/convert"}
    config = {"caBundle": bundle(), **client}
    webhook = {"clientConfig": config, "conversionReviewVersions": ["v1"]}
    return {"strategy": "Webhook", "webhook": webhook}


def widgets(hook: WebhookServer) -> JSON:
    """Return the spec of a definition with two versions, v1 stored."""
    both = (version("v1", storage=True), version("v2"))
    return spec(*both, conversion=conversion(hook))


def path(version: str, name: str = "") -> str:
    return f"/apis/example.com/{version}/namespaces/default/widgets{name}"


async def send(
    cluster: Cluster, method: str, where: str, body: Any = None, **headers: str
) -> tuple[int, JSON]:
    content = b"" if body is None else msgspec.json.encode(body)
    answer = await call(cluster, method, where, content, **headers)
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


async def test_every_write_works_in_every_version(
    cluster: Cluster, hook: WebhookServer
) -> None:
    await define(cluster, widgets(hook))
    made = await make(cluster, "v1", "a", address="h:1")
    there = path("v2", "/a")
    changed = {"spec": {"port": "2"}}
    _, found = await send(cluster, "PATCH", there, changed, content_type=MERGE)
    assert (found["spec"], found["metadata"]["generation"]) == (
        {"host": "h", "port": "2"},
        2,
    )
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    found["spec"]["host"] = "other"
    _, found = await send(cluster, "PUT", there, found)
    ready = {**found, "status": {"ready": "yes"}}
    _, found = await send(cluster, "PUT", f"{there}/status", ready)
    assert (found["spec"], found["status"]) == (
        {"host": "other", "port": "2"},
        {"ready": "yes"},
    )
    config = {
        "apiVersion": "example.com/v2",
        "kind": "Widget",
        "metadata": {"name": "a"},
        "spec": {"port": "3"},
    }
    applied = f"{there}?fieldManager=me&force=true"
    media = "application/apply-patch+yaml"
    _, found = await send(cluster, "PATCH", applied, config, content_type=media)
    assert found["spec"] == {"host": "other", "port": "3"}
    managers = {
        each["manager"]: each["apiVersion"]
        for each in found["metadata"]["managedFields"]
    }
    assert managers["me"] == "example.com/v2"
    dry = f"{there}?dryRun=All"
    _, found = await send(
        cluster, "PATCH", dry, {"spec": {"port": "9"}}, content_type=MERGE
    )
    assert found["spec"]["port"] == "9"
    _, found = await send(cluster, "GET", path("v1", "/a"))
    assert found["spec"] == {"address": "other:3"}
    assert found["status"] == {"ready": "yes"}
    assert (await send(cluster, "DELETE", there))[0] == 200
    assert (await send(cluster, "GET", there))[0] == 404


async def test_managers_of_fields_may_apply_in_different_versions(
    cluster: Cluster, hook: WebhookServer
) -> None:
    await define(cluster, widgets(hook))

    async def apply(version: str, manager: str, force: str, **fields: Any) -> Any:
        head = {"apiVersion": f"example.com/{version}", "kind": "Widget"}
        config = {**head, "metadata": {"name": "a"}, "spec": fields}
        where = f"{path(version, '/a')}?fieldManager={manager}&force={force}"
        media = "application/apply-patch+yaml"
        status, body = await send(cluster, "PATCH", where, config, content_type=media)
        return body["message"] if status >= 400 else body["spec"]

    both = {"host": "h", "port": "1"}
    assert await apply("v2", "one", "false", **both) == both
    assert await apply("v1", "two", "false", address="g:1") == (
        'Apply failed with 1 conflict: conflict with "one": .spec.host'
    )
    assert await apply("v1", "two", "false", address="h:1") == {"address": "h:1"}
    assert await apply("v2", "three", "false", port="2") == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .spec.port\n'
        'conflicts with "two":\n- .spec.address'
    )
    changed = {"host": "h", "port": "2"}
    assert await apply("v2", "three", "true", port="2") == changed
    _, found = await send(cluster, "GET", path("v1", "/a"))
    owned = {
        each["manager"]: each["fieldsV1"]["f:spec"]
        for each in found["metadata"]["managedFields"]
    }
    assert owned == {"one": {"f:host": {}}, "three": {"f:port": {}}}


async def test_a_write_without_a_change_stores_nothing(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """Unless the stored version has changed: so objects are migrated."""
    await define(cluster, widgets(hook))
    made = await make(cluster, "v1", "a", address="h:1")
    _, found = await send(
        cluster, "PATCH", path("v2", "/a"), {"spec": {"port": "1"}}, content_type=MERGE
    )
    version_before = made["metadata"]["resourceVersion"]
    assert found["metadata"]["resourceVersion"] == version_before
    moved = [version("v1"), version("v2", storage=True)]
    status, found = await send(
        cluster, "PATCH", PATH, {"spec": {"versions": moved}}, content_type=MERGE
    )
    assert (status, found["status"]["storedVersions"]) == (200, ["v1", "v2"])
    _, found = await send(cluster, "GET", path("v1", "/a"))
    _, found = await send(cluster, "PUT", path("v1", "/a"), found)
    assert found["metadata"]["resourceVersion"] != version_before
    (stored,) = cluster.server.storage.collection("widgets.example.com")
    assert stored.obj["spec"] == {"host": "h", "port": "1"}
    # Then the old version may go from the status, as a real API server wants it.
    left = {"status": {"storedVersions": ["v2"]}}
    where = f"{PATH}/status"
    assert (await send(cluster, "PATCH", where, left, content_type=MERGE))[0] == 200


async def test_a_collection_is_deleted_in_any_version(
    cluster: Cluster, hook: WebhookServer
) -> None:

    def labelled(request: JSON) -> JSON:
        answer = reply(request)
        for each in answer["response"]["convertedObjects"]:
            host = each["spec"].get("host", "")
            each["metadata"]["labels"] = {"host": host} if host else {}
        return answer

    hook.reply = labelled
    await define(cluster, widgets(hook))
    for name in ("a", "b"):
        await make(cluster, "v1", name, address=f"{name}:1")
    query = "?labelSelector=host=a"
    _, found = await send(cluster, "GET", path("v2") + query)
    assert [each["metadata"]["labels"] for each in found["items"]] == [{"host": "a"}]
    assert (await send(cluster, "DELETE", path("v2") + query))[0] == 200
    _, found = await send(cluster, "GET", path("v1"))
    assert [each["metadata"]["name"] for each in found["items"]] == ["b"]


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


async def test_selectable_fields_are_those_of_the_version(
    cluster: Cluster, hook: WebhookServer
) -> None:
    fields = [{"jsonPath": ".spec.host"}]
    both = version("v1", storage=True), version("v2", selectableFields=fields)
    await define(cluster, spec(*both, conversion=conversion(hook)))
    for name in ("a", "b"):
        await make(cluster, "v1", name, address=f"{name}:1")
    query = "?fieldSelector=spec.host=b"
    _, found = await send(cluster, "GET", path("v2") + query)
    assert [each["metadata"]["name"] for each in found["items"]] == ["b"]
    assert (await send(cluster, "GET", path("v1") + query))[0] == 400


async def test_the_scale_is_that_of_the_version(
    cluster: Cluster, hook: WebhookServer
) -> None:
    paths = {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"}
    both = (
        version("v1", storage=True),
        version("v2", subresources={"status": {}, "scale": paths}),
    )

    def counted(request: JSON) -> JSON:
        """Keep the number in an annotation of v1."""
        target, found = request["desiredAPIVersion"], []
        for each in request["objects"]:
            other = converted(each, target)
            metadata = {**each["metadata"]}
            if target.endswith("v1"):
                count = str((each.get("spec") or {}).get("count", 0))
                metadata["annotations"] = {"count": count}
            else:
                notes = metadata.pop("annotations", None) or {}
                other["spec"]["count"] = int(notes.get("count", 0))
            found.append({**other, "metadata": metadata})
        return review_of(request, found)

    hook.reply = counted
    await define(cluster, spec(*both, conversion=conversion(hook)))
    await make(cluster, "v2", "a", host="h", port="1", count=2)
    scale = path("v2", "/a/scale")
    _, found = await send(cluster, "GET", scale)
    assert found["spec"] == {"replicas": 2}
    change = {"spec": {"replicas": 5}}
    status, found = await send(cluster, "PATCH", scale, change, content_type=MERGE)
    assert (status, found["spec"]) == (200, {"replicas": 5})
    _, found = await send(cluster, "GET", path("v1", "/a"))
    assert found["metadata"]["annotations"] == {"count": "5"}
    assert (await send(cluster, "GET", path("v1", "/a/scale")))[0] == 404


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
