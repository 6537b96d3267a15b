"""What the tests of the quota controller share."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from controller_manager.api.resource import Resource
from controller_manager.client.client import PatchType
from controller_manager.client.transport import Transport
from controller_manager.controllers.cluster.resourcequota.controller import (
    QuotaController,
)
from controller_manager.controllers.cluster.resourcequota.options import (
    ResourceQuotaOptions,
)
from controller_manager.options.config import Config
from tests.clusters import Cluster, RecordingTransport, make_config

JSON = dict[str, Any]


@dataclass
class User:
    """A user of one namespace with quotas."""

    cluster: Cluster

    def add_quota(self, hard: dict[str, str], name: str = "q", **spec: Any) -> None:
        self.cluster.add("ResourceQuota", name, spec={"hard": hard, **spec})

    def add_pod(self, name: str, cpu: str = "100m", **spec: Any) -> None:
        resources = {"requests": {"cpu": cpu}}
        container = {"name": "c", "image": "app:v1", "resources": resources}
        self.cluster.add("Pod", name, spec={"containers": [container], **spec})

    def stored(self, name: str = "q", kind: str = "ResourceQuota") -> JSON:
        return self.cluster.server.objects.find(self._kind(kind), "default", name).obj

    def _kind(self, kind: str, api: str = "v1") -> Any:
        found = self.cluster.server.catalogue.of(api, kind)
        assert found is not None
        return found

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
        await self.cluster.client.delete(resource, "default", name)


def config(*options: ResourceQuotaOptions) -> Config:
    """Return a config of a manager that only counts quotas."""
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
