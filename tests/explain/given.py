"""An API server that has only given objects, and objects written in short."""

import re
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.request import ServerClock
from controller_manager.client.rest.transport import Request, Response
from controller_manager.explain.view import View
from tests.clusters import EPOCH, Cluster
from tests.streams import FakeTransport

_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_AGE = re.compile(r"(in )?(\d+)([ms])(?(1)| ago)")
_OF_METADATA = {
    "name": "name",
    "labels": "labels",
    "annotations": "annotations",
    "generation": "generation",
    "finalizers": "finalizers",
    "managedFields": "managedFields",
    "owners": "ownerReferences",
    "created": "creationTimestamp",
    "deleted": "deletionTimestamp",
    "grace": "deletionGracePeriodSeconds",
}
_CLUSTER_WIDE = ("nodes", "namespaces", "storageclasses", "persistentvolumes")


class Given(FakeTransport):
    """Answers with given objects, by the plural of their resource.

    It looks at no label selector; of the field selectors only at that of a pod's node.
    A plural in `refused` is answered with 403. With `page` a list has this number of
    objects at most, and the limit does not count. Custom rollouts have a scale.
    """

    def __init__(
        self, *, refused: tuple[str, ...] = (), page: int = 0, **objects: list[JSON]
    ) -> None:
        self._objects = objects
        self._refused = refused
        self._page = page

    async def request(self, request: Request) -> Response:
        if "rollouts" in self._objects and request.path in ("/api", "/apis"):
            return _answer(200, _rollouts(request.path), _DISCOVERY)
        if request.path.endswith("/rollouts/web/scale"):
            return _answer(200, {"status": {"selector": "app=web"}})
        parts = request.path.strip("/").split("/")
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        if rest and rest[0] == "namespaces" and len(rest) > 2:
            rest = rest[2:]
        if not rest or rest[0] in self._refused:
            return _answer(403, {"kind": "Status", "code": 403, "message": "no"})
        found = self._objects.get(rest[0], [])
        if len(rest) == 1:
            return self._list(found, dict(request.query))
        for each in found:
            if each["metadata"]["name"] == rest[1]:
                return _answer(200, each)
        return _answer(404, {"kind": "Status", "code": 404, "reason": "NotFound"})

    def _list(self, found: list[JSON], query: dict[str, str]) -> Response:
        start = int(query.get("continue", "0"))
        end = start + (self._page or len(found))
        metadata = {"continue": str(end)} if end < len(found) else {}
        return _answer(200, {"metadata": metadata, "items": found[start:end]})


def _answer(status: int, body: Any, media: str = "application/json") -> Response:
    return Response(status, {"content-type": media}, msgspec.json.encode(body))


def _rollouts(path: str) -> JSON:
    """Return the discovery of a custom resource with a scale."""
    resource = {
        "resource": "rollouts",
        "responseKind": {"kind": "Rollout"},
        "scope": "Namespaced",
        "verbs": ["get", "list"],
        "subresources": [{"subresource": "scale"}],
    }
    version = {"version": "v1", "resources": [resource]}
    group = {"metadata": {"name": "example.com"}, "versions": [version]}
    return {"items": [group] if path == "/apis" else []}


def view_of(
    cluster: Cluster,
    transport: Any = None,
    request_seconds: float = 5.0,
    seconds: float = 0,
) -> View:
    clock = ServerClock(cluster.clock)
    client = Client(transport or cluster.transport, cluster.clock, server_clock=clock)
    return View(client, clock, request_seconds, seconds=seconds)


def built(plural: str, short: JSON) -> JSON:
    """Return an object of a resource that is an hour old, from its short form.

    The short form has fields of the metadata at the top, ``owner: Kind/name``, times
    as ``5m ago``, conditions as ``Type Status Reason message``, the status of the
    container "app", and `at` and `about` of an event.
    """
    given = _timed(dict(short))
    metadata = {"name": given.get("name", "web"), "creationTimestamp": _time(60)}
    metadata["uid"] = f"uid-of-{metadata['name']}"
    if plural not in _CLUSTER_WIDE:
        metadata["namespace"] = "shop"
    if kind_and_name := given.pop("owner", ""):
        kind, _, name = kind_and_name.partition("/")
        owner = {"kind": kind, "name": name, "uid": f"uid-of-{name}"}
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    for key, name in _OF_METADATA.items():
        if key in given:
            metadata[name] = given.pop(key)
    if app := given.pop("app", None):
        status = {"name": "app", "ready": False, **app}
        given["status"] = {**given["status"], "containerStatuses": [status]}
    if conditions := (given.get("status") or {}).get("conditions"):
        given["status"]["conditions"] = [_condition(each) for each in conditions]
    for key, name in (("at", "lastTimestamp"), ("about", "involvedObject")):
        if key in given:
            given[name] = given.pop(key)
    return {**given, "metadata": metadata}


def _condition(given: JSON | str) -> JSON:
    if isinstance(given, dict):
        return given
    name, status, reason, message = (*given.split(" ", 3), "", "")[:4]
    return {
        "type": name,
        "status": status,
        "reason": reason.removeprefix("-"),
        "message": message,
        "lastTransitionTime": _time(60),
    }


def _timed(given: Any) -> Any:
    """Return a value in which the ages are times, and fields with null are left out."""
    match given:
        case dict():
            return {
                key: _timed(each) for key, each in given.items() if each is not None
            }
        case list():
            return [_timed(each) for each in given]
        case "now":
            return _time(0)
        case str() if found := _AGE.fullmatch(given):
            number = int(found[2]) * (-1 if found[1] else 1)
            return _time(number / 60 if found[3] == "s" else number)
    return given


def _time(minutes: float) -> str:
    then: datetime = EPOCH - timedelta(minutes=minutes)
    return then.isoformat().replace("+00:00", "Z")
