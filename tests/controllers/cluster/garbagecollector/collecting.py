"""A user of a cluster with a garbage collector, and transports that fail."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from controller_manager.api.core.v1 import CONFIG_MAPS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import PartialObject, Resource
from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import DeleteOptions, PropagationPolicy
from controller_manager.client.rest.errors import NotFound
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.controllers.cluster.garbagecollector.controller import (
    GarbageCollector,
)
from controller_manager.devcluster.registry.apiextensions.definitions import (
    sync_definitions,
)
from controller_manager.manager.manager import ControllerManager
from controller_manager.runtime.controller import WorkerGroup
from tests.clusters import make_config, run_manager
from tests.controllers.custom_resources import DEFINITIONS, definition
from tests.controllers.hands import Hands

COLLECTOR = "garbage-collector-controller"


ROLES: Resource[Any] = Resource(
    "rbac.authorization.k8s.io",
    "v1",
    "clusterroles",
    "ClusterRole",
    dict,
    namespaced=False,
)


@dataclass
class User:
    """The actions of a user of the cluster, and the objects that the user sees."""

    cluster: Hands

    async def create(
        self,
        name: str,
        *owners: JSON,
        resource: Resource[Any] = CONFIG_MAPS,
        namespace: str = "default",
        **metadata: Any,
    ) -> JSON:
        """Create an object with these owners; return a reference to it."""
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "ownerReferences": list(owners), **metadata},
        }
        await self.cluster.client.create_json(
            replace(resource, type=dict), namespace, msgspec.json.encode(body)
        )
        obj = await self.cluster.client.get_json(resource, namespace, name)
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": name,
            "uid": obj["metadata"]["uid"],
        }

    async def delete(
        self,
        name: str,
        policy: PropagationPolicy = PropagationPolicy.BACKGROUND,
        resource: Resource[Any] = CONFIG_MAPS,
    ) -> None:
        await self.cluster.client.delete(
            resource, "default", name, DeleteOptions(propagation_policy=policy)
        )

    async def metadata(
        self, name: str, resource: Resource[Any] = CONFIG_MAPS
    ) -> JSON | None:
        try:
            obj = await self.cluster.client.get_json(resource, "default", name)
        except NotFound:
            return None
        found: JSON = obj["metadata"]
        return found

    async def names(self, resource: Resource[Any] = CONFIG_MAPS) -> list[str]:
        page = await self.cluster.client.list_page(
            replace(resource, type=PartialObject), "default"
        )
        return [each.metadata.name for each in page.items]


def blocking(reference: JSON) -> JSON:
    return {**reference, "blockOwnerDeletion": True}


@asynccontextmanager
async def collecting(
    cluster: Hands, transport: Any = None
) -> AsyncGenerator[GarbageCollector, None]:
    config = make_config(controllers=(COLLECTOR,))
    connections = Connections(transport or cluster.transport)
    async with run_manager(connections, cluster.clock, cluster.rng, config) as manager:
        yield collector_of(manager)


def collector_of(manager: ControllerManager) -> GarbageCollector:
    pools = manager.controllers[COLLECTOR].controller
    assert isinstance(pools, WorkerGroup)
    collector: GarbageCollector = pools._pools[0].reconcile.__self__  # type: ignore[attr-defined]
    return collector


@dataclass
class Interfering:
    """Runs a function right before a request, or refuses the request."""

    inner: Any
    broken: str = ""
    before: Any = None
    empty: bool = False
    requests: list[Request] = field(default_factory=list)
    silent: str = ""
    speaks: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def host(self) -> str:
        return "test"

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        if self.before is not None:
            await self.before(request)
        if self.broken and request.path.endswith(self.broken):
            return Response(500, {}, b'{"kind":"Status","code":500}')
        if self.empty and request.path in ("/api", "/apis"):
            media = (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            )
            return Response(200, {"content-type": media}, b'{"items":[]}')
        answer: Response = await self.inner.request(request)
        return answer

    async def stream(self, request: Request) -> Stream:
        if self.silent and request.path.endswith(self.silent):
            await self.speaks.wait()
        if self.broken and request.path.endswith(self.broken):
            answer = replace(request, path="/nowhere")
            return await self.inner.stream(answer)  # type: ignore[no-any-return]
        stream: Stream = await self.inner.stream(request)
        return stream


async def define(user: User) -> None:
    body = msgspec.json.encode(definition())
    await user.cluster.client.create_json(DEFINITIONS, "", body)


def serve_widgets(user: User, *, served: bool) -> None:
    """Have the API server serve widgets, or not, with any definitions."""
    definitions = user.cluster.server.storage.collection(
        "customresourcedefinitions.apiextensions.k8s.io"
    )
    stored = definitions.get(("", "widgets.example.com"))
    assert stored is not None
    kinds = user.cluster.server.catalogue
    if served:
        sync_definitions(user.cluster.server.objects, kinds)
        return
    found = kinds.find("example.com", "v1", "widgets")
    assert found is not None
    kinds.remove(found)
