"""A user of a cluster in memory."""

import asyncio
from typing import Any

import msgspec

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
    Deployment,
    ReplicaSet,
)
from controller_manager.api.core.v1 import EVENTS, PODS, Event, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Resource
from controller_manager.client.rest.client import (
    DeleteOptions,
    PatchType,
    PropagationPolicy,
)
from tests.clusters import Cluster

REVISION = "deployment.kubernetes.io/revision"


class User:
    """A user of the cluster: creates, changes and reads objects."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.client = cluster.client

    async def create(self, resource: Resource[Any], obj: JSON) -> Any:
        namespace = obj["metadata"].get("namespace", "default")
        body = msgspec.json.encode(obj)
        return await self.client.create_json(resource, namespace, body)

    async def patch(self, resource: Resource[Any], name: str, patch: JSON) -> Any:
        return await self.client.patch(
            resource, "default", name, patch, PatchType.MERGE
        )

    async def delete(
        self, resource: Resource[Any], name: str, how: str | None = None
    ) -> None:
        """Delete an object; `how` is "Orphan", "Foreground" or "Background"."""
        policy = None if how is None else PropagationPolicy(how)
        options = DeleteOptions(propagation_policy=policy)
        await self.client.delete(resource, "default", name, options)

    async def report(self, pod: str, **status: Any) -> None:
        """Write fields of the status of a pod, as its kubelet."""
        patch = {"status": status}
        await self.client.patch(PODS, "default", pod, patch, subresource="status")

    async def set_image(self, image: str, name: str = "web") -> None:
        containers = [{"name": "c", "image": image}]
        spec = {"template": {"spec": {"containers": containers}}}
        await self.patch(DEPLOYMENTS, name, {"spec": spec})

    async def deployment(self, name: str = "web") -> Deployment:
        return await self.client.get(DEPLOYMENTS, "default", name)

    async def replica_sets(self) -> dict[str, ReplicaSet]:
        """Return replica sets by revision."""
        page = await self.client.list_page(REPLICASETS)
        return {
            (each.metadata.annotations or {}).get(REVISION, each.metadata.name): each
            for each in page.items
        }

    async def pods(self) -> list[Pod]:
        return (await self.client.list_page(PODS)).items

    async def events(self, reason: str) -> list[Event]:
        page = await self.client.list_page(EVENTS)
        return [each for each in page.items if each.reason == reason]

    async def conditions(self, name: str = "web") -> dict[str, tuple[str, str]]:
        subject = await self.deployment(name)
        return {
            each.type: (each.status, each.reason)
            for each in subject.status.conditions or ()
        }

    async def make_ready(self, pod: str, restarts: int = 0) -> None:
        """Have a pod run and be ready, as long as all others."""
        since = "2026-01-01T00:00:00Z"
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
        container = {"name": "c", "image": "i", "imageID": "i"}
        await self.report(
            pod,
            phase="Running",
            conditions=[ready],
            containerStatuses=[{**container, "restartCount": restarts}],
        )

    async def make_dear_and_cheap_pods(self) -> tuple[str, str]:
        """Give the first of two pods a deletion cost, and many restarts."""
        await settle()
        dear, cheap = [pod.metadata.name for pod in await self.pods()]
        cost = {"controller.kubernetes.io/pod-deletion-cost": "100"}
        await self.patch(PODS, dear, {"metadata": {"annotations": cost}})
        await self.make_ready(dear, restarts=9)
        await self.make_ready(cheap)
        await settle()
        return dear, cheap


async def settle(seconds: float = 20) -> None:
    await asyncio.sleep(seconds)
