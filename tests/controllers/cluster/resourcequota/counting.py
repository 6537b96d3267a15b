"""Helpers of the tests of the quota controller."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Resource
from controller_manager.client.rest.client import (
    DeleteOptions,
    PatchType,
    PropagationPolicy,
)
from controller_manager.client.rest.transport import (
    Request,
    Response,
    Stream,
    Transport,
)
from controller_manager.controllers.cluster.resourcequota import ResourceQuotaOptions
from controller_manager.controllers.cluster.resourcequota.controller import (
    QuotaController,
)
from controller_manager.options.config import Config
from tests.clusters import Cluster, RecordingTransport, make_config


@dataclass
class User:
    cluster: Cluster

    def add_quota(self, hard: dict[str, str], name: str = "q", **spec: Any) -> None:
        self.cluster.add("ResourceQuota", name, spec={"hard": hard, **spec})

    def add_pod(self, name: str, cpu: str = "100m", **spec: Any) -> None:
        resources = {"requests": {"cpu": cpu}}
        container = {"name": "c", "image": "app:v1", "resources": resources}
        self.cluster.add("Pod", name, spec={"containers": [container], **spec})

    def stored(
        self, name: str = "q", kind: str = "ResourceQuota", api: str = "v1"
    ) -> JSON:
        found = self.cluster.server.catalogue.of(api, kind)
        assert found is not None
        return self.cluster.server.objects.find(found, "default", name).obj

    def status(self, name: str = "q") -> JSON:
        status: JSON = self.stored(name)["status"]
        return status

    def used(self, name: str = "q") -> dict[str, str]:
        used: dict[str, str] = self.status(name).get("used", {})
        return used

    async def patch(self, plural: str, name: str, patch: JSON, part: str = "") -> None:
        resource: Resource[Any] = Resource("", "v1", plural, "", dict)
        await self.cluster.client.patch(
            resource, "default", name, patch, PatchType.MERGE, part
        )

    async def delete(self, plural: str, name: str, group: str = "") -> None:
        resource: Resource[Any] = Resource(group, "v1", plural, "", dict)
        # Some kinds wait for the garbage collector to orphan their dependents.
        options = DeleteOptions(propagation_policy=PropagationPolicy.BACKGROUND)
        await self.cluster.client.delete(resource, "default", name, options)


@dataclass
class Watching:
    """Passes all requests on, and notes which paths are watched."""

    inner: Transport
    watched: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        return self.inner.host

    async def request(self, request: Request) -> Response:
        return await self.inner.request(request)

    async def stream(self, request: Request) -> Stream:
        self.watched.append(request.path)
        return await self.inner.stream(request)

    async def close(self) -> None:
        await self.inner.close()


@dataclass
class Failing(Watching):
    """Answers requests whose path ends with `broken` with an error.

    If `empty`, discovery lists nothing.
    """

    broken: str = ""
    empty: bool = False

    async def request(self, request: Request) -> Response:
        if self.empty and request.path in ("/api", "/apis"):
            media = (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            )
            return Response(200, {"content-type": media}, b'{"items":[]}')
        if self.broken and request.path.endswith(self.broken):
            return Response(500, {}, b'{"kind":"Status","code":500}')
        return await self.inner.request(request)

    async def stream(self, request: Request) -> Stream:
        if self.broken and request.path.endswith(self.broken):
            return await self.inner.stream(replace(request, path="/nowhere"))
        return await self.inner.stream(request)


def config(*options: ResourceQuotaOptions) -> Config:
    made = make_config(controllers=("resourcequota",))
    return replace(made, controllers={type(each): each for each in options})


@asynccontextmanager
async def counting(
    cluster: Cluster, transport: Transport | None = None, settings: Config | None = None
) -> AsyncGenerator[RecordingTransport, None]:
    """Run a manager that only counts quotas; yields its writes."""
    async with cluster.manager(settings or config(), transport) as recording:
        yield recording


@asynccontextmanager
async def controller_of(cluster: Cluster) -> AsyncGenerator[QuotaController, None]:
    """Run a manager that only counts quotas; yields its controller."""
    made: list[QuotaController] = []
    real = QuotaController.__init__

    def init(self: QuotaController, *args: Any) -> None:
        real(self, *args)
        made.append(self)

    with mock.patch.object(QuotaController, "__init__", init):
        async with cluster.manager(config()):
            yield made[0]
