"""Answers in protobuf, as Go's typed clients ask for them."""

import struct
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import msgspec
import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.scheme.protobuf import MEDIA_TYPE, decode
from controller_manager.devcluster.scheme.protobuf_decoder import read_fields
from tests.clusters import TOKEN, Cluster
from tests.devcluster.requests import call, create_pod
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

PODS = "/api/v1/namespaces/default/pods"
GO_CLIENT = f"{MEDIA_TYPE},application/json"
METADATA = f"{MEDIA_TYPE};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def split(chunk: bytes) -> list[tuple[str, JSON]]:
    """Return the types and objects of the events in a chunk of frames."""
    found = []
    while chunk:
        (length,) = struct.unpack(">I", chunk[:4])
        (_, _, name), (_, _, raw) = read_fields(chunk[4 : 4 + length])
        ((_, _, obj),) = read_fields(raw)
        found.append((name.decode(), decode(obj, built_in())))
        chunk = chunk[4 + length :]
    return found


@asynccontextmanager
async def watch(
    cluster: Cluster, query: str, accept: str
) -> AsyncIterator[tuple[str, AsyncIterator[tuple[str, JSON]]]]:
    """Open a watch of pods; yields its content type and its events."""
    pairs = tuple(each.partition("=")[::2] for each in query.split("&"))
    headers = {"authorization": f"Bearer {TOKEN}", "accept": accept}
    answer = await cluster.server.handle(
        Request("GET", PODS, (("watch", "1"), *pairs), headers)
    )
    assert not isinstance(answer, Response)

    async def events() -> AsyncIterator[tuple[str, JSON]]:
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                for each in split(chunk):
                    yield each

    yield answer.headers["content-type"], events()
    await answer.close()


def json_of(answer: Response) -> JSON:
    body: JSON = msgspec.json.decode(answer.body)
    return body


async def test_an_object_that_go_sends_back_is_unchanged(cluster: Cluster) -> None:
    """Read and written in protobuf: the version stays."""
    await create_pod(cluster, "a")
    read = await call(cluster, "GET", f"{PODS}/a", accept=GO_CLIENT)
    written = await call(
        cluster,
        "PUT",
        f"{PODS}/a",
        read.body,
        accept=GO_CLIENT,
        content_type=MEDIA_TYPE,
    )
    assert written.status == 200
    assert decode(written.body, built_in()) == decode(read.body, built_in())


async def test_a_watch_sends_frames(cluster: Cluster) -> None:
    await create_pod(cluster, "a")
    query = "timeoutSeconds=1&allowWatchBookmarks=1&sendInitialEvents=true"
    query += "&resourceVersionMatch=NotOlderThan"
    found = {}
    for accept in (MEDIA_TYPE, METADATA):
        async with watch(cluster, query, accept) as (content_type, events):
            assert content_type == f"{MEDIA_TYPE};stream=watch"
            found[accept] = [
                (kind, obj["kind"], obj["metadata"].get("name", ""))
                async for kind, obj in events
            ]
    assert found == {
        MEDIA_TYPE: [("ADDED", "Pod", "a"), ("BOOKMARK", "Pod", "")],
        METADATA: [
            ("ADDED", "PartialObjectMetadata", "a"),
            ("BOOKMARK", "PartialObjectMetadata", ""),
        ],
    }


async def test_a_watch_from_a_version_that_is_gone_ends_with_an_error_in_protobuf(
    cluster: Cluster,
) -> None:
    await create_pod(cluster, "a")
    cluster.server.storage.collection("pods").expire()
    await create_pod(cluster, "b")
    path = f"{PODS}?watch=1&resourceVersion=1"
    answer = await call(cluster, "GET", path, accept=MEDIA_TYPE)
    assert answer.headers["content-type"] == f"{MEDIA_TYPE};stream=watch"
    [(event_type, status)] = split(answer.body)
    assert (event_type, status["kind"], status["reason"]) == (
        "ERROR",
        "Status",
        "Expired",
    )


WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


async def test_bytes_that_are_no_base64_are_refused_in_every_kind(
    cluster: Cluster,
) -> None:
    """No protobuf could hold them later."""
    webhook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://a.example.com", "caBundle": "a"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    body = {"metadata": {"name": "a"}, "webhooks": [webhook]}
    answer = await call(cluster, "POST", WEBHOOKS, body)
    assert (answer.status, json_of(answer)["reason"]) == (400, "BadRequest")
    assert "illegal base64 data" in json_of(answer)["message"]


async def test_an_object_that_protobuf_cannot_hold_ends_neither_server_nor_watch(
    cluster: Cluster,
) -> None:
    """The answer is an error 500, and so is the event; other events follow."""
    await create_pod(cluster, "a")
    pods = cluster.server.storage.collection("pods")
    stored = pods.get(("default", "a"))
    assert stored is not None
    pods.put(("default", "a"), {**stored.obj, "spec": {"nodeName": 1}})
    await create_pod(cluster, "b")
    for path in (PODS, f"{PODS}/a"):
        answer = await call(cluster, "GET", path, accept=MEDIA_TYPE)
        assert (answer.status, json_of(answer)["reason"]) == (500, "InternalError")
    query = "timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    async with watch(cluster, f"{query}&allowWatchBookmarks=1", MEDIA_TYPE) as (
        _,
        events,
    ):
        found = [(kind, obj["kind"]) async for kind, obj in events]
    assert found[:2] == [("ERROR", "Status"), ("ADDED", "Pod")]


@rows("query", "code", "message")
async def test_a_watch_that_is_refused_gets_a_status_in_protobuf(
    cluster: Cluster, query: str, code: int, message: str
) -> None:
    accept = f"{MEDIA_TYPE};stream=watch"
    answer = await call(cluster, "GET", f"{PODS}?watch=1&{query}", accept=accept)
    assert answer.headers["content-type"] == MEDIA_TYPE
    status = decode(answer.body, built_in())
    assert (answer.status, status["kind"], status["code"]) == (code, "Status", code)
    assert message in status["message"]
