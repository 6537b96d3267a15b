"""An API server that has only given objects."""

from typing import Any

import msgspec

from controller_manager.api.meta import AnyResource
from controller_manager.client.rest.transport import Request, Response
from controller_manager.explain.cause import Cause, Explanation, Item, State
from controller_manager.explain.explainer import explain_item
from tests.clusters import Cluster
from tests.explain.test_objects import view_of

NOW = "2026-01-01T00:00:00Z"
LONG_AGO = "2025-12-31T23:00:00Z"
Chain = tuple[str, State, list["Chain"]]


def before(minutes: int) -> str:
    """Return the time of some minutes before the present time of the cluster."""
    assert 0 < minutes < 60
    return f"2025-12-31T23:{60 - minutes:02}:00Z"


class Given:
    """Answers with given objects, by the plural of their resource.

    It looks at no label selector; of the field selectors only at that of a pod's node.
    A plural in `refused` is answered with 403. With `page` a list has this number of
    objects at most, and the limit does not count.
    """

    host = "given"

    def __init__(
        self,
        *,
        refused: tuple[str, ...] = (),
        page: int = 0,
        **objects: list[dict[str, Any]],
    ) -> None:
        self._objects = objects
        self._refused = refused
        self._page = page

    async def request(self, request: Request) -> Response:
        parts = request.path.strip("/").split("/")
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        if rest and rest[0] == "namespaces" and len(rest) > 2:
            rest = rest[2:]
        if not rest or rest[0] in self._refused:
            return _answer(403, {"kind": "Status", "code": 403, "message": "no"})
        found = self._objects.get(rest[0], [])
        if len(rest) == 1:
            return self._list(found, dict(request.query))
        named = [each for each in found if each["metadata"]["name"] == rest[1]]
        if not named:
            status = {"kind": "Status", "code": 404, "reason": "NotFound"}
            return _answer(404, status)
        return _answer(200, named[0])

    def _list(self, found: list[dict[str, Any]], query: dict[str, str]) -> Response:
        start = int(query.get("continue", "0"))
        end = start + (self._page or len(found))
        metadata = {"continue": str(end)} if end < len(found) else {}
        return _answer(200, {"metadata": metadata, "items": found[start:end]})


def _answer(status: int, body: Any) -> Response:
    return Response(status, {}, msgspec.json.encode(body))


def named(name: str, **metadata: Any) -> dict[str, Any]:
    """Return the metadata of an object that is an hour old."""
    return {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-of-{name}",
        "creationTimestamp": LONG_AGO,
        **metadata,
    }


def event(reason: str, message: str, at: str, **involved: Any) -> dict[str, Any]:
    """Return an event that was last seen at a time."""
    return {
        "metadata": {"name": f"{reason}-{at}", "namespace": "shop"},
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
        "involvedObject": involved,
    }


async def explained(
    cluster: Cluster,
    resource: AnyResource,
    body: dict[str, Any],
    server: Given | None = None,
) -> Explanation:
    """Return the explanation of an object, with the others of a server around it."""
    view = view_of(cluster, server or Given())
    return await explain_item(view, Item(resource, body))


def chains(causes: tuple[Cause, ...]) -> list[Chain]:
    """Return the code and the state of causes, with those below them."""
    return [(each.code, each.state, chains(each.because)) for each in causes]
