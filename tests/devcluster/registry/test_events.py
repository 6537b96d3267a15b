"""Events of both groups are the same objects."""

import json
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import TOKEN, Cluster
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

CORE = "/api/v1/namespaces/default/events"
NEW = "/apis/events.k8s.io/v1/namespaces/default/events"
TIME = "2026-01-01T00:00:00.000001Z"
EVENT: JSON = {
    "metadata": {"name": "e"},
    "eventTime": TIME,
    "reportingController": "example.com/me",
    "reportingInstance": "me-1",
    "action": "Try",
    "reason": "Tried",
    "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
    "note": "It was tried.",
    "type": "Normal",
}


async def answer(cluster: Cluster, method: str, path: str, body: Any = None) -> JSON:
    encoded = json.dumps(body).encode() if body else b""
    given = await call(cluster, method, path, encoded)
    found: JSON = json.loads(given.body)
    return found


async def test_an_event_is_read_under_other_names(cluster: Cluster) -> None:
    created = await answer(cluster, "POST", NEW, EVENT)
    fields = {name: value for name, value in created.items() if name != "metadata"}
    assert fields == {
        **{name: value for name, value in EVENT.items() if name != "metadata"},
        "kind": "Event",
        "apiVersion": "events.k8s.io/v1",
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    }
    old = await answer(cluster, "GET", f"{CORE}/e")
    assert old["metadata"] == created["metadata"]
    assert {name: value for name, value in old.items() if name != "metadata"} == {
        "kind": "Event",
        "apiVersion": "v1",
        "involvedObject": EVENT["regarding"],
        "reason": "Tried",
        "message": "It was tried.",
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "type": "Normal",
        "eventTime": TIME,
        "action": "Try",
        "reportingComponent": "example.com/me",
        "reportingInstance": "me-1",
    }
    selected = await answer(cluster, "GET", f"{NEW}?fieldSelector=regarding.name=p")
    assert [each["note"] for each in selected["items"]] == ["It was tried."]
    none = await answer(cluster, "GET", f"{NEW}?fieldSelector=regarding.name=q")
    assert none["items"] == []
    query = (("watch", "1"), ("timeoutSeconds", "1"))
    watched = await cluster.transport.request(Request("GET", NEW, query))
    (line,) = watched.body.splitlines()
    assert json.loads(line)["object"] == created


async def test_an_event_is_changed_in_either_group(cluster: Cluster) -> None:
    created = await answer(cluster, "POST", NEW, EVENT)
    series = {"count": 2, "lastObservedTime": TIME}
    changed = await answer(cluster, "PUT", f"{NEW}/e", {**created, "series": series})
    assert changed["series"] == series
    old = await answer(cluster, "GET", f"{CORE}/e")
    assert old["series"] == series
    ended = await answer(cluster, "PUT", f"{CORE}/e", {**old, "message": "over"})
    assert ended["message"] == "over"
    assert (await answer(cluster, "GET", f"{NEW}/e"))["note"] == "over"
    await answer(cluster, "DELETE", f"{NEW}/e")
    assert (await answer(cluster, "GET", f"{CORE}/e"))["code"] == 404


@rows("path", "change", "message")
async def test_a_wrong_event_is_refused(
    cluster: Cluster, path: str, change: JSON, message: str
) -> None:
    refused = await answer(cluster, "POST", path, {**EVENT, **change})
    assert refused["message"] == f'Event "e" is invalid: {message}'


async def test_events_are_selected_by_their_reporter(cluster: Cluster) -> None:
    await answer(cluster, "POST", NEW, EVENT)
    old = {
        "metadata": {"name": "old", "namespace": "default"},
        "involvedObject": EVENT["regarding"],
        "source": {"component": "me"},
    }
    await answer(cluster, "POST", CORE, old)
    found = {}
    for path, field in (
        (NEW, "reportingController=example.com/me"),
        (CORE, "reportingComponent=example.com/me"),
        (CORE, "source=example.com/me"),
        (CORE, "source=me"),
        (CORE, "source!=me"),
    ):
        events = await answer(cluster, "GET", f"{path}?fieldSelector={field}")
        found[field] = [each["metadata"]["name"] for each in events["items"]]
    assert found == {
        "reportingController=example.com/me": ["e"],
        "reportingComponent=example.com/me": ["e"],
        "source=example.com/me": ["e"],
        "source=me": ["old"],
        "source!=me": ["e"],
    }


REGARDING = {
    "kind": "Pod",
    "namespace": "default",
    "name": "p",
    "uid": "1-2",
    "apiVersion": "v1",
    "resourceVersion": "7",
    "fieldPath": "spec.containers{c}",
}


@rows("path", "fields")
async def test_events_are_selected_by_fields_in_both_groups(
    cluster: Cluster, path: str, fields: dict[str, str]
) -> None:
    """By those of the group alone; any other field is refused."""
    await answer(cluster, "POST", NEW, {**EVENT, "regarding": REGARDING})
    for name, value in fields.items():
        for sign, number in (("=", 1), ("!=", 0)):
            query = (("fieldSelector", f"{name}{sign}{value}"),)
            headers = {"authorization": f"Bearer {TOKEN}"}
            request = Request("GET", path, query, headers)
            found = await cluster.server.handle(request)
            assert isinstance(found, Response)
            assert len(json.loads(found.body)["items"]) == number, (name, sign)
    refused = await answer(cluster, "GET", f"{path}?fieldSelector=note=x")
    assert refused["message"] == "field label not supported: note"
