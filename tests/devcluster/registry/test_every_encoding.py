"""Every verb of every kind answers the same in JSON, YAML and protobuf."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.registry import find_kinds
from tests.clusters import TOKEN, Cluster
from tests.devcluster.registry.encodings import ENCODINGS, Encoding
from tests.devcluster.registry.minimal import minimal
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

KINDS = find_kinds()
STORED = [kind for kind in KINDS if kind.is_stored and "create" in kind.verbs]
MERGE = "application/merge-patch+json"
CONDITION = {
    "type": "Tested",
    "status": "True",
    "reason": "Test",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def shown(kind: Kind) -> str:
    return f"{kind.resource}-{kind.version}"


def collection(kind: Kind) -> str:
    root = f"/apis/{kind.group}" if kind.group else "/api"
    scope = "/namespaces/default" if kind.namespaced else ""
    return f"{root}/{kind.version}{scope}/{kind.plural}"


class Client:
    """Sends requests in one encoding, and records the answers."""

    def __init__(self, encoding: Encoding) -> None:
        self.cluster = Cluster()
        self.answers: list[tuple[str, int, Any]] = []
        self._encoding = encoding

    async def send(self, method: str, path: str, obj: JSON | None = None) -> Any:
        body = self._encoding.encode(obj) if obj else b""
        return await self._sent(method, path, body, self._encoding.media_type)

    async def patch(self, path: str, patch: bytes) -> Any:
        return await self._sent("PATCH", path, patch, MERGE)

    async def shown_as(self, path: str, form: str, encoding: str = "") -> Any:
        media_type = encoding or self._encoding.media_type
        accept = f"{media_type};as={form};v=v1;g=meta.k8s.io"
        return await self._sent("GET", path, b"", "", accept)

    async def _sent(
        self, method: str, path: str, body: bytes, content_type: str, accept: str = ""
    ) -> Any:
        accept = accept or self._encoding.media_type
        answer = await call(
            self.cluster, method, path, body, content_type=content_type, accept=accept
        )
        media_type = answer.headers["content-type"]
        assert media_type == accept.partition(";")[0]
        decode = next(
            each.decode for each in ENCODINGS.values() if each.media_type == media_type
        )
        decoded = decode(answer.body)
        self.answers.append((f"{method} {path}", answer.status, decoded))
        return decoded

    async def watch(self, path: str, version: str, form: str = "") -> None:
        query = (("watch", "1"), ("resourceVersion", version), ("timeoutSeconds", "1"))
        media_type = self._encoding.stream.partition(";")[0]
        accept = f"{media_type};as={form};v=v1;g=meta.k8s.io" if form else media_type
        request = Request("GET", path, query, {"accept": accept})
        answer = await self.cluster.transport.request(request)
        assert answer.headers["content-type"] == self._encoding.stream
        events = self._encoding.events(answer.body)
        self.answers.append((f"WATCH {path} {form}", answer.status, events))


async def live(kind: Kind, client: Client) -> None:
    """Create, read, change and delete objects of a kind."""
    path = collection(kind)
    before = await client.send("GET", path)
    version = before["metadata"]["resourceVersion"]
    created = await client.send("POST", path, minimal(kind, labels={"a": "b"}))
    await client.send("POST", path, minimal(kind))
    await client.send("POST", f"{path}?dryRun=All", minimal(kind, "unborn"))
    at = f"{path}/{created['metadata']['name']}"
    current = await client.send("GET", at)
    changed = {**current, "metadata": {**current["metadata"], "labels": {"c": "d"}}}
    await client.send("PUT", at, changed)
    await client.send("PUT", at, changed)
    await client.patch(at, b'{"metadata":{"annotations":{"e":"f"}}}')
    await write_status(client, at)
    await write_scale(client, at)
    await client.shown_as(at, "PartialObjectMetadata")
    await client.send("GET", f"{path}?labelSelector=c=d")
    await client.shown_as(path, "PartialObjectMetadataList")
    await client.shown_as(path, "Table", "application/json")
    await client.watch(path, version)
    await client.watch(path, version, "PartialObjectMetadata")
    options = {"kind": "DeleteOptions", "apiVersion": "v1"}
    wrong = {**options, "preconditions": {"uid": "another"}}
    await client.send("DELETE", at, wrong)
    await client.send("DELETE", at, {**options, "propagationPolicy": "Background"})
    await client.send("POST", path, minimal(kind, "two"))
    await client.send("DELETE", path, options)
    await client.send("GET", path)


async def write_status(client: Client, at: str) -> None:
    """Write the status of an object, which is refused if the kind has none."""
    current = await client.send("GET", f"{at}/status")
    if current["kind"] == "Status":
        return
    status = current.get("status", {})
    conditions = [*status.get("conditions", []), CONDITION]
    current["status"] = {**status, "conditions": conditions}
    await client.send("PUT", f"{at}/status", current)
    await client.patch(f"{at}/status", b'{"metadata":{"labels":{"g":"h"}}}')


async def write_scale(client: Client, at: str) -> None:
    """Write the scale of an object, which is refused if the kind has none."""
    scale = await client.send("GET", f"{at}/scale")
    if scale["kind"] != "Status":
        await client.send("PUT", f"{at}/scale", {**scale, "spec": {"replicas": 3}})
        await client.patch(f"{at}/scale", b'{"spec":{"replicas":2}}')


def as_in_protobuf(value: Any) -> Any:
    """Return an answer without the parts of its JSON that protobuf does not have.

    These are null, empty lists and maps, and the type of the items of a list.
    """
    if isinstance(value, dict):
        if isinstance(value.get("items"), list):
            untyped = {"kind": None, "apiVersion": None}
            value = {**value, "items": [each | untyped for each in value["items"]]}
        pairs = ((name, as_in_protobuf(each)) for name, each in value.items())
        return {name: each for name, each in pairs if each not in (None, [], {})}
    if isinstance(value, list | tuple):
        return [as_in_protobuf(each) for each in value]
    return value


async def compare(live: Callable[[Client], Awaitable[None]]) -> list[int]:
    """Compare the answers to the same requests; return their codes."""
    clients = [Client(encoding) for encoding in ENCODINGS.values()]
    await asyncio.gather(*map(live, clients))
    json, yaml, protobuf = (client.answers for client in clients)
    assert yaml == json
    for ours, theirs in zip(protobuf, json, strict=True):
        assert as_in_protobuf(ours) == as_in_protobuf(theirs)
    return [status for _, status, _ in json]


@pytest.mark.parametrize("kind", STORED, ids=shown)
async def test_every_verb_answers_the_same_in_every_encoding(kind: Kind) -> None:
    """Whole answers: of objects, lists, metadata, tables, watches and refusals."""
    statuses = await compare(partial(live, kind))
    assert {200, 201, 409} <= set(statuses) <= {200, 201, 403, 404, 405, 409, 422}


CREATED_ONLY = [kind for kind in KINDS if kind.verbs == ("create",)]
SUBJECT: JSON = {
    "user": "jane",
    "groups": ["a", "b"],
    "extra": {"scopes": ["x", "y"], "none": []},
    "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"},
}
CONTENTS: dict[str, JSON] = {
    "Binding": {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}},
    "LocalSubjectAccessReview": {"spec": SUBJECT},
    "SelfSubjectAccessReview": {
        "spec": {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}
    },
    "SelfSubjectReview": {},
    "SelfSubjectRulesReview": {"spec": {"namespace": "default"}},
    "SubjectAccessReview": {"spec": SUBJECT},
    "TokenReview": {"spec": {"token": TOKEN, "audiences": ["a"]}},
}
"""The fields of a kind whose objects are answered and not stored."""

POD: JSON = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a"},
    "spec": {"containers": [{"name": "c", "image": "i:v1"}]},
}


@pytest.mark.parametrize("kind", CREATED_ONLY, ids=shown)
async def test_a_kind_that_is_only_created_answers_the_same(kind: Kind) -> None:

    async def post(client: Client) -> None:
        await client.send("POST", "/api/v1/namespaces/default/pods", POD)
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        obj = {**head, **CONTENTS[kind.kind]}
        await client.send("POST", collection(kind), obj)
        await client.send("POST", f"{collection(kind)}?dryRun=All", obj)

    statuses = await compare(post)
    assert statuses[1] == 201


@rows("name", "request_", "type_", "more", ids=lambda each: str(each)[:30])
async def test_a_subresource_answers_the_same(
    name: str, request_: str, type_: str, more: JSON
) -> None:
    """Each that takes a body of its own, or the whole object."""
    (kind,) = (each for each in STORED if shown(each) == name)
    method, _, subresource = request_.partition(" ")

    async def write(client: Client) -> None:
        obj = await client.send("POST", collection(kind), minimal(kind))
        if type_:
            version, _, kind_name = type_.partition(" ")
            obj = {"apiVersion": version, "kind": kind_name, "metadata": {"name": "a"}}
        path = f"{collection(kind)}/a"
        await client.send(method, f"{path}/{subresource}", {**obj, **more})
        await client.send("GET", path)

    statuses = await compare(write)
    assert statuses[0] == 201
    assert statuses[1] in (200, 201)


async def test_a_token_is_requested_in_every_encoding() -> None:
    """Only the tokens differ: their signatures do."""

    async def post(client: Client) -> None:
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "a"},
        }
        path = "/api/v1/namespaces/default/serviceaccounts"
        await client.send("POST", path, account)
        spec = {"audiences": ["b"], "expirationSeconds": 600}
        head = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        answer = await client.send("POST", f"{path}/a/token", {**head, "spec": spec})
        assert answer["status"].pop("token").count(".") == 2

    assert await compare(post) == [201, 201]
