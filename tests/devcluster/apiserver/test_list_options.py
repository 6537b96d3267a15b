"""The options of lists and watches: refusals and answers."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.parse import unquote

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import TOKEN, Cluster
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
MATCH = "resourceVersionMatch"


async def create(cluster: Cluster, *names: str) -> int:
    """Create config maps; return the version of the last one."""
    for name in names:
        body = json.dumps({"metadata": {"name": name}}).encode()
        answer = await call(cluster, "POST", MAPS, body)
        assert answer.status == 201
    return cluster.server.storage.version


async def listed(cluster: Cluster, query: str) -> JSON:
    answer = await call(cluster, "GET", f"{MAPS}?{query}")
    assert answer.status == 200, answer.body
    body: JSON = json.loads(answer.body)
    return body


def names(body: JSON) -> list[str]:
    return [each["metadata"]["name"] for each in body["items"]]


@rows("query", "refusal")
async def test_wrong_options_are_refused(
    cluster: Cluster, query: str, refusal: list[Any]
) -> None:
    answer = await call(cluster, "GET", f"{MAPS}?{unquote(query)}")
    assert [answer.status, json.loads(answer.body)["message"]] == refusal


@pytest.mark.parametrize(
    ("text", "watches"),
    [("", True), ("1", True), ("yes", True), ("0", False), ("False", False)],
)
async def test_only_0_and_false_are_false(
    cluster: Cluster, text: str, *, watches: bool
) -> None:
    query = (("watch", text), ("timeoutSeconds", "1"))
    headers = {"authorization": f"Bearer {TOKEN}"}
    answer = await cluster.server.handle(Request("GET", MAPS, query, headers))
    assert isinstance(answer, Response) is not watches


async def test_pages_are_of_one_version(cluster: Cluster) -> None:
    """Also if objects change; a limit with a version asks for exactly this version."""
    version = await create(cluster, "a", "b", "c")
    first = await listed(cluster, "limit=2")
    await create(cluster, "d")
    second = await listed(cluster, f"continue={first['metadata']['continue']}")
    exact = await listed(cluster, f"limit=5&resourceVersion={version}")
    newer = await listed(
        cluster, f"limit=5&resourceVersion={version}&{MATCH}=NotOlderThan"
    )
    pages = [names(each) for each in (first, second, exact, newer)]
    assert pages == [["a", "b"], ["c"], ["a", "b", "c"], ["a", "b", "c", "d"]]
    versions = [each["metadata"]["resourceVersion"] for each in (first, second, exact)]
    assert versions == [str(version)] * 3
    assert first["metadata"]["remainingItemCount"] == 1


async def test_a_list_of_any_version_comes_whole(cluster: Cluster) -> None:
    await create(cluster, "a", "b", "c")
    whole = await listed(cluster, "limit=2&resourceVersion=0")
    assert (names(whole), "continue" in whole["metadata"]) == (["a", "b", "c"], False)


async def test_a_token_goes_without_a_version(cluster: Cluster) -> None:
    version = await create(cluster, "a", "b")
    token = (await listed(cluster, "limit=1"))["metadata"]["continue"]
    path = f"{MAPS}?continue={token}&resourceVersion={version}"
    answer = await call(cluster, "GET", path)
    assert (answer.status, json.loads(answer.body)["message"]) == (
        400,
        "specifying resource version is not allowed when using continue",
    )


async def test_a_list_of_an_expired_version_can_continue(cluster: Cluster) -> None:
    version = await create(cluster, "a", "b", "c")
    token = (await listed(cluster, "limit=1"))["metadata"]["continue"]
    await create(cluster, "bb")
    cluster.server.storage.collection("configmaps").compact()
    refused = await call(cluster, "GET", f"{MAPS}?limit=1&continue={token}")
    status = json.loads(refused.body)
    assert (refused.status, status["reason"]) == (410, "Expired")
    assert status["message"].startswith("The provided continue parameter is too old")
    rest = await listed(cluster, f"continue={status['metadata']['continue']}")
    assert names(rest) == ["b", "bb", "c"]
    exact = await call(
        cluster, "GET", f"{MAPS}?resourceVersion={version}&{MATCH}=Exact"
    )
    assert (exact.status, json.loads(exact.body)["message"]) == (
        410,
        "The resourceVersion for the provided list is too old.",
    )


async def test_one_object_may_be_asked_for_at_a_version(cluster: Cluster) -> None:
    """A server that has not seen the version yet says so."""
    version = await create(cluster, "a")
    found = await call(cluster, "GET", f"{MAPS}/a?resourceVersion={version}")
    ahead = await call(cluster, "GET", f"{MAPS}/a?resourceVersion={version + 9}")
    wrong = await call(cluster, "GET", f"{MAPS}/a?resourceVersion=x")
    assert [found.status, ahead.status, wrong.status] == [200, 504, 400]
    assert ahead.headers["retry-after"] == "1"


async def test_a_continue_token_may_be_garbage(cluster: Cluster) -> None:
    for body in (b"[]", b"{}", b'{"rv":"x","start":"a"}', b'{"rv":[],"start":1}'):
        token = base64.urlsafe_b64encode(body).decode().rstrip("=")
        answer = await call(cluster, "GET", f"{MAPS}?continue={token}")
        assert answer.status == 400, body


@rows("method", "path", "refusal")
async def test_wrong_options_of_writes_are_refused(
    cluster: Cluster, method: str, path: str, refusal: str
) -> None:
    version = await create(cluster, "a")
    answer = await call(cluster, method, path, b'{"metadata":{"name":"b"}}')
    assert (answer.status, json.loads(answer.body)["message"]) == (422, refusal)
    assert cluster.server.storage.version == version


async def test_a_put_says_which_object_it_means(cluster: Cluster) -> None:
    await create(cluster, "a")
    answer = await call(cluster, "PUT", f"{MAPS}/a", b'{"data":{"a":"1"}}')
    assert (answer.status, json.loads(answer.body)["message"]) == (
        400,
        (
            "the name of the object (a based on URL) was undeterminable: name must be "
            "provided"
        ),
    )


async def test_a_patch_has_its_limits(cluster: Cluster) -> None:
    await create(cluster, "a")
    operations = [{"op": "test", "path": "/metadata/name", "value": "a"}] * 10_001
    body, media_type = json.dumps(operations).encode(), "application/json-patch+json"
    answer = await call(cluster, "PATCH", f"{MAPS}/a", body, content_type=media_type)
    assert (answer.status, json.loads(answer.body)["message"]) == (
        413,
        (
            "Request entity too large: The allowed maximum operations in a JSON patch "
            "is 10000, got 10001"
        ),
    )


# Watches


@asynccontextmanager
async def watch(
    cluster: Cluster, query: str, accept: str = "", path: str = MAPS
) -> AsyncIterator[AsyncIterator[JSON]]:
    """Open a watch; yields its events."""
    pairs = tuple(each.partition("=")[::2] for each in query.split("&"))
    headers = {"authorization": f"Bearer {TOKEN}", "accept": accept}
    answer = await cluster.server.handle(
        Request("GET", path, (("watch", "1"), *pairs), headers)
    )
    assert not isinstance(answer, Response)

    async def events() -> AsyncIterator[JSON]:
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                for line in chunk.splitlines():
                    yield json.loads(line)

    yield events()
    await answer.close()


async def shown(cluster: Cluster, query: str) -> list[str]:
    """Return the names of the objects, and the bookmarks, of a watch until its end."""
    found = []
    async with watch(cluster, query) as events:
        async for event in events:
            metadata = event["object"]["metadata"]
            if event["type"] != "BOOKMARK":
                found.append(metadata["name"])
            elif "annotations" in metadata:
                found.append("end of initial events")
            else:
                found.append(f"bookmark {metadata['resourceVersion']}")
    return found


@rows("query", "expected")
async def test_a_watch_begins_and_ends_as_its_options_say(
    cluster: Cluster, query: str, expected: list[str]
) -> None:
    last = await create(cluster, "a", "b")
    found = await shown(cluster, query.format(last=last))
    assert found == [each.format(last=last) for each in expected]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/watch/namespaces/default/configmaps", ["a", "b"]),
        ("/api/v1/watch/namespaces/default/configmaps/b", ["b"]),
        ("/api/v1/watch/configmaps", ["a", "b"]),
        ("/api/v1/watch/namespaces/default", ["default"]),
    ],
)
async def test_the_paths_of_old_clients_are_watched(
    cluster: Cluster, path: str, expected: list[str]
) -> None:
    await create(cluster, "a", "b")
    async with watch(cluster, "timeoutSeconds=1&watch=0", path=path) as events:
        found = [each["object"]["metadata"]["name"] async for each in events]
    assert found == expected


async def test_only_the_first_table_of_a_watch_has_columns(cluster: Cluster) -> None:
    """As kubectl get --watch expects."""
    await create(cluster, "a", "b")
    async with watch(
        cluster, "timeoutSeconds=1&allowWatchBookmarks=1", TABLE
    ) as events:
        found = [
            (
                each["type"],
                each["object"]["kind"],
                each["object"]["columnDefinitions"] is None,
                len(each["object"]["rows"]),
            )
            async for each in events
        ]
    assert found == [
        ("ADDED", "Table", False, 1),
        ("ADDED", "Table", True, 1),
        ("BOOKMARK", "Table", True, 0),
    ]


async def test_a_watch_of_metadata_has_bookmarks_of_metadata(cluster: Cluster) -> None:
    """As client-go's metadata client decodes them."""
    await create(cluster, "a")
    query = "timeoutSeconds=1&allowWatchBookmarks=1"
    async with watch(cluster, query, METADATA) as events:
        found = [(each["type"], each["object"]["kind"]) async for each in events]
    kind = "PartialObjectMetadata"
    assert found == [("ADDED", kind), ("BOOKMARK", kind)]


async def test_a_selected_value_may_have_commas(cluster: Cluster) -> None:
    for reason in ("a,b", "a=b", "a\\b"):
        event = {
            "metadata": {"generateName": "e-"},
            "involvedObject": {"namespace": "default"},
            "reason": reason,
        }
        path = "/api/v1/namespaces/default/events"
        await call(cluster, "POST", path, json.dumps(event).encode())
    found = []
    for selector in (r"reason=a\,b", r"reason=a\=b", r"reason=a\\b"):
        headers = {"authorization": f"Bearer {TOKEN}"}
        query = (("fieldSelector", selector),)
        answer = await cluster.server.handle(Request("GET", path, query, headers))
        assert isinstance(answer, Response)
        found += [each["reason"] for each in json.loads(answer.body)["items"]]
    assert found == ["a,b", "a=b", "a\\b"]


async def test_a_resource_on_its_own_has_its_own_versions(cluster: Cluster) -> None:
    cluster.server.storage.collection("configmaps").separate(1000)
    before = await create(cluster, "a", "b")
    body = await listed(cluster, "limit=1")
    version = int(body["metadata"]["resourceVersion"])
    assert version > before + 900
    assert names(body) == ["a"]
    rest = await listed(cluster, f"continue={body['metadata']['continue']}")
    assert (names(rest), rest["metadata"]["resourceVersion"]) == (["b"], str(version))
    at_least = f"resourceVersion={version}&{MATCH}=NotOlderThan"
    assert names(await listed(cluster, at_least)) == ["a", "b"]
    past = f"resourceVersion={version - 1}&{MATCH}=Exact"
    assert names(await listed(cluster, past)) == ["a"]
