"""A user of services on a cluster in memory."""

from typing import Any

from controller_manager.api.core.v1 import EVENTS, PODS
from controller_manager.api.discovery.v1 import ENDPOINT_SLICES, EndpointSlice
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Resource
from controller_manager.client.rest.client import PatchType
from controller_manager.options.config import Config
from tests.clusters import Cluster, make_config

PORTS = [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]


def slice_config(**generic: object) -> Config:
    return make_config(controllers=("endpointslice",), **generic)


class ServiceUser:
    """Creates services, nodes and pods; reads the slices."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.client = cluster.client

    def add_node(self, name: str = "n1", zone: str = "a") -> None:
        labels = {"topology.kubernetes.io/zone": zone} if zone else {}
        status = {
            "allocatable": {"cpu": "4"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        self.cluster.add(
            "Node", name, metadata={"name": name, "labels": labels}, status=status
        )

    def add_service(self, name: str = "web", **spec: Any) -> None:
        whole = {"selector": {"app": "web"}, "ports": PORTS, **spec}
        self.cluster.add("Service", name, spec=whole)

    def add_pod(self, name: str, ip: str, node: str = "n1", **metadata: Any) -> None:
        labels = {"app": "web"}
        self.cluster.add(
            "Pod",
            name,
            metadata={"name": name, "labels": labels, **metadata},
            spec={"nodeName": node, "containers": [{"name": "c", "image": "app:v1"}]},
            status=pod_status(ip),
        )

    async def patch(self, resource: Resource[Any], name: str, patch: JSON) -> None:
        await self.client.patch(resource, "default", name, patch, PatchType.MERGE)

    async def set_status(self, name: str, ip: str, *, ready: bool = True) -> None:
        await self.patch_status(PODS, name, {"status": pod_status(ip, ready=ready)})

    async def patch_status(
        self, resource: Resource[Any], name: str, patch: JSON
    ) -> None:
        namespace = "default" if resource.namespaced else ""
        await self.client.patch(
            resource, namespace, name, patch, PatchType.MERGE, subresource="status"
        )

    async def delete(self, resource: Resource[Any], name: str) -> None:
        namespace = "default" if resource.namespaced else ""
        await self.client.delete(resource, namespace, name)

    async def slices(self) -> list[EndpointSlice]:
        page = await self.client.list_page(ENDPOINT_SLICES, "default")
        return sorted(page.items, key=lambda each: each.metadata.name)

    async def addresses(self) -> list[list[str]]:
        return sorted(
            sorted(one for e in each.endpoints or () for one in e.addresses or ())
            for each in await self.slices()
        )

    async def events(self) -> list[tuple[str, str, str]]:
        page = await self.client.list_page(EVENTS, "default")
        return [
            (each.reason, each.message, each.source.component) for each in page.items
        ]

    async def event_counts(self) -> list[int]:
        page = await self.client.list_page(EVENTS, "default")
        return [each.count for each in page.items]


def pod_status(ip: str, *, ready: bool = True) -> JSON:
    return {
        "phase": "Running",
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "conditions": [
            {
                "type": "Ready",
                "status": "True" if ready else "False",
                "lastTransitionTime": "2026-01-01T00:00:01Z",
            }
        ],
    }
