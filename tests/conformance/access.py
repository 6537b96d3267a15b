"""A scenario's requests to the API, and the objects of its namespace."""

import json
from collections.abc import Collection
from typing import Any, Final, NamedTuple

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Transport
from tests.conformance.objects import is_cluster_scoped, path_of

MERGE: Final = "application/merge-patch+json"
PATCH_TYPES: Final = {
    "merge": MERGE,
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
NOT_FOUND: Final = (404,)
_NAMED: Final = "{named:"
_AUTHENTICATED: Final = "system:authenticated"
GONE_OR_CHANGED: Final = (404, 409)
"""A node's errors about a pod that was deleted or changed in the meantime."""


class Other(NamedTuple):
    """Objects of another namespace that belong to a scenario."""

    kind: str
    namespace: str
    name: str
    """The name of one object, or the beginning of names, before ``*``."""

    @property
    def title(self) -> str:
        """The name of these errors in a checkpoint."""
        return f"{self.kind}@{self.namespace}"

    def fits(self, name: str) -> bool:
        """Tell whether an object of this name is one of them."""
        if self.name.endswith("*"):
            return name.startswith(self.name[:-1])
        return name == self.name


def other(text: str) -> Other:
    """Return what a recording names as ``KIND NAMESPACE/NAME``."""
    kind, _, rest = text.partition(" ")
    namespace, _, name = rest.partition("/")
    return Other(kind, namespace, name)


async def own_name(transport: Transport) -> str:
    """Return the name by which the API server knows who sends these requests."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    response = await transport.request(
        Request("POST", path, body=json.dumps(review).encode())
    )
    name: str = json.loads(response.body)["status"]["userInfo"]["username"]
    return name


class Access:
    """Sends a scenario's requests; it owns cluster-scoped objects by their name."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self._namespace = namespace

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "",
        *,
        expected: Collection[int] = (),
        user: JSON | None = None,
    ) -> JSON:
        """Return the answer to a request, sent in the name of `user` if there is one.

        `user` has the fields "user" and "groups". Raises AssertionError for an error
        whose status is not `expected`.
        """
        headers = {"accept": "application/json"}
        encoded = None
        if body is not None:
            encoded = json.dumps(body).encode()
            headers["content-type"] = content_type or "application/json"
        if user is not None:
            headers["impersonate-user"] = user["user"]
            # The server adds this group; so one value is left, as HTTP headers have.
            groups = [each for each in user["groups"] if each != _AUTHENTICATED]
            headers["impersonate-group"] = "\n".join(groups)
        path, _, query = path.partition("?")
        pairs = tuple(
            (name, value)
            for name, _, value in (each.partition("=") for each in query.split("&"))
            if name
        )
        answer = await self._transport.request(
            Request(method, path, query=pairs, headers=headers, body=encoded)
        )
        assert answer.status < 400 or answer.status in expected, (
            f"{method} {path}: {answer.body.decode()}"
        )
        decoded: JSON = json.loads(answer.body)
        return decoded

    def path(
        self, kind: str, name: str = "", subresource: str = "", namespace: str = ""
    ) -> str:
        """Return the path of objects of a kind, or of one of them.

        `namespace` is the scenario's own by default.
        """
        return path_of(kind, namespace or self._namespace, name, subresource)

    async def items(self, kind: str, selector: str = "") -> list[JSON]:
        """Return the scenario's objects of a kind, those with these labels."""
        if kind == "Namespace":
            path = path_of(kind, self._namespace)
            found = [await self.call("GET", path, expected=NOT_FOUND)]
            return [each for each in found if each["kind"] == "Namespace"]
        query = f"?labelSelector={selector}" if selector else ""
        items: list[JSON] = (await self.call("GET", self.path(kind) + query))["items"]
        mine = [each for each in items if self._owns(kind, each)]
        return [{**each, "kind": kind} for each in mine]

    async def others(self, wanted: Other) -> list[JSON]:
        """Return the scenario's objects of another namespace."""
        path = path_of(wanted.kind, wanted.namespace)
        items: list[JSON] = (await self.call("GET", path))["items"]
        return [
            {**each, "kind": wanted.kind}
            for each in items
            if wanted.fits(each["metadata"]["name"])
        ]

    async def cluster_events(self) -> list[JSON]:
        """Return the events about the scenario's cluster-scoped objects.

        They are in the namespace "default".
        """
        items: list[JSON] = (await self.call("GET", path_of("Event", "default")))[
            "items"
        ]
        about = ((each, each["involvedObject"]) for each in items)
        return [
            each
            for each, obj in about
            if not obj.get("namespace")
            and obj.get("name", "").startswith(self._namespace)
        ]

    async def full_name(self, kind: str, name: str) -> str:
        """Return a name; of one that ends in ``*``, that of the oldest such object.

        ``{named:PREFIX}`` is another way to write ``PREFIX*``. Raises AssertionError if
        there is no such object.
        """
        if name.startswith(_NAMED):
            name = f"{name.removeprefix(_NAMED).removesuffix('}')}*"
        if not name.endswith("*"):
            return name
        found = [
            (each["metadata"]["creationTimestamp"], str(each["metadata"]["name"]))
            for each in await self.items(kind)
            if each["metadata"]["name"].startswith(name[:-1])
        ]
        assert found, f"there is no {kind} {name}"
        return min(found)[1]

    def _owns(self, kind: str, obj: JSON) -> bool:
        """Tell whether an object is the scenario's: by its name, or as it names it."""
        if not is_cluster_scoped(kind):
            return True
        named: bool = obj["metadata"]["name"].startswith(self._namespace)
        return named or self._namespace in json.dumps(obj.get("spec", {}))
