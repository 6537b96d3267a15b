"""Services, pods and Endpoints on a cluster in memory, for tests of controllers."""

import asyncio
from typing import Any

from controller_manager.api.core.services import ENDPOINTS, Endpoints
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Resource
from controller_manager.client.rest.client import DeleteOptions, PatchType
from controller_manager.client.rest.errors import NotFound
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import TOKEN, Cluster


def add_service(cluster: Cluster, name: str = "web", **spec: Any) -> None:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    cluster.add(
        "Service", name, spec={"ports": ports, "selector": {"app": "web"}, **spec}
    )


def pod_status(ip: str, *, ready: bool = True) -> JSON:
    condition = {
        "type": "Ready",
        "status": str(ready),
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    ips = [{"ip": ip}]
    return {"phase": "Running", "podIP": ip, "podIPs": ips, "conditions": [condition]}


def add_pod(cluster: Cluster, name: str, ip: str, **metadata: Any) -> None:
    cluster.add(
        "Pod",
        name,
        metadata={"name": name, "labels": {"app": "web"}, **metadata},
        spec={"nodeName": "n", "containers": [{"name": "c", "image": "app:v1"}]},
        status=pod_status(ip),
    )


def subset_json(*ips: str, port: int = 1) -> JSON:
    return {
        "addresses": [{"ip": each} for each in ips],
        "ports": [{"name": "p", "port": port, "protocol": "TCP"}],
    }


def add_endpoints(cluster: Cluster, name: str, *ips: str, **metadata: Any) -> None:
    cluster.add(
        "Endpoints",
        name,
        metadata={"name": name, **metadata},
        subsets=[subset_json(*ips)],
    )


async def endpoints(cluster: Cluster, name: str = "web") -> Endpoints | None:
    try:
        return await cluster.client.get(ENDPOINTS, "default", name)
    except NotFound:
        return None


async def addresses(cluster: Cluster, name: str = "web") -> list[str] | None:
    """Return the addresses that are ready after a second, `None` without Endpoints."""
    await asyncio.sleep(1)
    found = await endpoints(cluster, name)
    if found is None:
        return None
    return [
        address.ip
        for subset in found.subsets or ()
        for address in subset.addresses or ()
    ]


async def delete(cluster: Cluster, resource: Resource[Any], name: str) -> None:
    options = DeleteOptions(grace_period_seconds=0)
    await cluster.client.delete(resource, "default", name, options)


async def patch(
    cluster: Cluster,
    resource: Resource[Any],
    name: str,
    change: JSON,
    subresource: str = "",
) -> None:
    await cluster.client.patch(
        resource, "default", name, change, PatchType.MERGE, subresource
    )


class Refusing(InMemoryTransport):
    """Refuses the first writes of a method: with these answers, then no more."""

    def __init__(self, cluster: Cluster, method: str, *answers: Response) -> None:
        super().__init__(cluster.server, TOKEN)
        self._method = method
        self._answers = list(answers)

    async def request(self, request: Request) -> Response:
        is_event = "/events" in request.path
        if self._answers and request.method == self._method and not is_event:
            return self._answers.pop(0)
        return await super().request(request)
