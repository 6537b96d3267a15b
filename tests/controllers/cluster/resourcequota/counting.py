"""A cluster with quotas, and a manager that only counts them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final
from unittest import mock

import msgspec

from controller_manager.api.core.resources import RESOURCE_QUOTAS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
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
from tests.clusters import RecordingTransport, make_config
from tests.controllers.custom_resources import DEFINITIONS, definition
from tests.controllers.hands import Hands

CONTAINER: Final = {"name": "c", "image": "app:v1"}


class Quotas(Hands):
    def add_quota(self, hard: dict[str, str], name: str = "q", **spec: Any) -> None:
        self.put(RESOURCE_QUOTAS, name, spec={"hard": hard, **spec})

    def quota(self, name: str = "q", **hard: str) -> None:
        self.add_quota(hard, name)

    def add_pod(self, name: str, cpu: str = "100m", **spec: Any) -> None:
        container = {**CONTAINER, "resources": {"requests": {"cpu": cpu}}}
        self.put(PODS, name, spec={"containers": [container], **spec})

    def add_near(self, name: str, kind: str, **chosen: Any) -> None:
        """Add a pod with (anti-)affinity to pods of other namespaces."""
        term = {"labelSelector": {}, "topologyKey": "zone", **chosen}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        self.add_pod(name, affinity={kind: required})

    def try_out(self, name: str) -> None:
        """Add a pod in a dry run."""
        kind, namespace = self._kind(PODS, "")
        pod = {"metadata": {"name": name}, "spec": {"containers": [CONTAINER]}}
        self.server.objects.create(kind, namespace, pod, dry_run=True)

    async def define(self) -> None:
        """Define widgets."""
        body = msgspec.json.encode(definition())
        await self.client.create_json(DEFINITIONS, "", body)

    def add_class(self) -> None:
        spec = {"extendedResourceName": "example.com/gpu"}
        self.put("deviceclasses", "gpu", spec=spec)

    def add_claim(self, name: str, count: str, metadata: JSON | None = None) -> None:
        device = {"deviceClassName": "gpu", "count": int(count)}
        exactly = {**device, "allocationMode": "ExactCount"}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        claims = "resource.k8s.io/v1/resourceclaims"
        self.put(claims, name, metadata=metadata or {}, spec=spec)

    def add_extended_pod(self) -> JSON:
        """Add a pod that asks for two devices; return the metadata of its claims."""
        amounts = {"example.com/gpu": "2"}
        resources = {"requests": amounts, "limits": amounts}
        containers = [{**CONTAINER, "resources": resources}]
        uid = self.put(PODS, "p", spec={"containers": containers})["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}
        return {
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [{**owner, "controller": True}],
        }

    def status(self, name: str = "q") -> JSON:
        return dict(self.stored(RESOURCE_QUOTAS, name).get("status", {}))

    def used(self, name: str = "q") -> dict[str, str]:
        return dict(self.status(name).get("used", {}))


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
    """Answers discovery with nothing, if it is `empty`."""

    empty: bool = False

    async def request(self, request: Request) -> Response:
        if self.empty and request.path in ("/api", "/apis"):
            media = (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            )
            return Response(200, {"content-type": media}, b'{"items":[]}')
        return await self.inner.request(request)


def config(**options: Any) -> Config:
    made = make_config(controllers=("resourcequota",))
    chosen = ResourceQuotaOptions(**options)
    return replace(made, controllers={ResourceQuotaOptions: chosen})


@asynccontextmanager
async def counting(
    cluster: Hands, transport: Any = None, settings: Config | None = None
) -> AsyncGenerator[RecordingTransport, None]:
    """Run a manager that only counts quotas; yields its writes."""
    async with cluster.manager(settings or config(), transport) as recording:
        yield recording


@asynccontextmanager
async def controller_of(cluster: Hands) -> AsyncGenerator[QuotaController, None]:
    """Run a manager that only counts quotas; yields its controller."""
    made: list[QuotaController] = []
    real = QuotaController.__init__

    def init(self: QuotaController, *args: Any) -> None:
        real(self, *args)
        made.append(self)

    with mock.patch.object(QuotaController, "__init__", init):
        async with cluster.manager(config()):
            yield made[0]
