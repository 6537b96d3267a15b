"""A cluster in memory whose objects a test changes at once, and a meddler with it."""

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from controller_manager.api.core.v1 import EVENTS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import AnyResource
from controller_manager.client.rest.transport import (
    Request,
    Response,
    Stream,
    Transport,
)
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.strategy import Deletion
from tests.clusters import Cluster

Known = AnyResource | str


class Hands(Cluster):
    """A cluster whose objects a test reads and changes without requests.

    Namespaced objects are in "default" unless a namespace is given. A resource may be
    written by its plural name, or as "group/version/plural".
    """

    async def close(self) -> None:
        """End what the cluster does by itself: nothing, unless a subclass does."""

    def put(self, resource: Known, name: str, at: str = "", **parts: Any) -> JSON:
        """Create an object in the namespace `at`, also its status; return it."""
        status = parts.pop("status", None)
        metadata = {**parts.pop("metadata", {}), "name": name}
        kind, namespace = self._kind(resource, at)
        obj = {"metadata": metadata, **parts}
        self.server.objects.create(kind, namespace, obj)
        if status is not None:
            self.edit(resource, name, at, status=status)
        return self.stored(resource, name, at)

    def edit(self, resource: Known, name: str, at: str = "", **parts: Any) -> None:
        """Merge parts into an object; `None` removes a field."""
        kind, namespace = self._kind(resource, at)
        status = parts.pop("status", None)
        for subresource, patch in (("", parts), ("status", {"status": status})):
            if patch and patch != {"status": None}:
                obj = self.stored(resource, name, at)
                _merge(obj, patch)
                self.server.objects.update(kind, namespace, name, obj, subresource)

    def remove(self, resource: Known, name: str, at: str = "", grace: int = 0) -> None:
        """Delete an object, as a user does."""
        kind, namespace = self._kind(resource, at)
        self.server.objects.delete(kind, namespace, name, Deletion(grace_period=grace))

    def drop(self, resource: Known, name: str, at: str = "") -> None:
        """Remove an object, although finalizers may protect it."""
        kind, namespace = self._kind(resource, at)
        self.server.storage.collection(kind.resource).remove((namespace, name))

    def strip(self, resource: Known, name: str, *finalizers: str) -> None:
        """Leave an object these finalizers only."""
        self.edit(resource, name, metadata={"finalizers": list(finalizers) or None})

    def lose(self, resource: Known, name: str) -> None:
        """Delete an object, although finalizers may protect it."""
        self.remove(resource, name)
        self.strip(resource, name)

    def stored(self, resource: Known, name: str, at: str = "") -> JSON:
        kind, namespace = self._kind(resource, at)
        return copy.deepcopy(self.server.objects.find(kind, namespace, name).obj)

    def all(self, resource: Known) -> list[JSON]:
        kind, _ = self._kind(resource, "")
        return [each.obj for each in self.server.storage.collection(kind.resource)]

    def names(self, resource: Known) -> list[str]:
        return sorted(each["metadata"]["name"] for each in self.all(resource))

    def only(self, resource: Known) -> str:
        """Return the name of the only object of a resource."""
        (name,) = self.names(resource)
        return name

    def finalizers(self, resource: Known) -> dict[str, list[str]]:
        """Return the finalizers of all objects by name."""
        found = [each["metadata"] for each in self.all(resource)]
        return {each["name"]: each.get("finalizers", []) for each in found}

    def told(self, *, counted: bool = False) -> list[str]:
        """Return the events, sorted: object, type, reason, source, message, count."""
        return sorted(
            f"{each['involvedObject']['name']} {each['type']} {each['reason']} "
            f"[{each['source']['component']}]: {each['message']}"
            + (f" x{each['count']}" if counted else "")
            for each in self.all(EVENTS)
        )

    def told_of(self) -> list[str]:
        """Return the kinds of the objects that events are about."""
        return [each["involvedObject"]["kind"] for each in self.all(EVENTS)]

    def _kind(self, resource: Known, at: str) -> tuple[Kind, str]:
        catalogue = self.server.catalogue
        if not isinstance(resource, str):
            kind = catalogue.find(resource.group, resource.version, resource.plural)
        elif "/" in resource:
            kind = catalogue.find(*resource.split("/"))
        else:
            kinds = (each for each in catalogue.all() if each.plural == resource)
            kind = next(kinds, None)
        assert kind is not None, resource
        return kind, (at or "default") if kind.namespaced else ""


def _merge(obj: JSON, patch: JSON) -> None:
    for key, value in patch.items():
        if value is None:
            obj.pop(key, None)
        elif isinstance(value, dict) and isinstance(obj.get(key), dict):
            _merge(obj[key], value)
        else:
            obj[key] = value


@dataclass
class Before:
    """Acts before the first requests of a method whose path ends so; counts them all.

    What the act returns, if anything, is the answer in place of the API server's.
    """

    cluster: Cluster
    method: str
    path: str
    act: Callable[[], Any]
    times: int = 1
    inner: Transport | None = None
    requests: list[Request] = field(default_factory=list)
    """All requests of this kind."""
    host: str = "test"

    @property
    def seen(self) -> int:
        return len(self.requests)

    async def request(self, request: Request) -> Response:
        if request.method == self.method and request.path.endswith(self.path):
            self.requests.append(request)
            if self.seen <= self.times:
                answer = self.act()
                if inspect.isawaitable(answer):
                    answer = await answer
                if isinstance(answer, Response):
                    return answer
        inner = self.inner or self.cluster.transport
        return await inner.request(request)

    async def stream(self, request: Request) -> Stream:
        return await self.cluster.transport.stream(request)

    async def close(self) -> None:
        """Leave the cluster's transport open."""
