"""Nodes, their kubelets and their pods, for tests on a cluster in memory."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from msgspec import structs

from controller_manager.api.coordination.v1 import LEASES, Lease, LeaseSpec
from controller_manager.api.core.v1 import EVENTS, NODES, PODS, Node
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.scalars import format_micro_time, format_time
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.errors import NotFound
from controller_manager.controllers.nodes.nodelifecycle import NodeLifecycleOptions
from controller_manager.controllers.nodes.nodelifecycle.controller import NODE_LEASES
from controller_manager.options.config import Config
from tests.clusters import Cluster, make_config

POSTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""The conditions that a kubelet posts."""


def lifecycle_config(
    period: float = 1.0, controllers: Iterable[str] = ("nodelifecycle",), **flags: Any
) -> Config:
    """Return a config with a check every second, and a grace period of six seconds."""
    chosen: JSON = {
        "node_monitor_grace_period": 6.0,
        "node_startup_grace_period": 5.0,
        "node_eviction_rate": 20.0,
        **flags,
    }
    options = NodeLifecycleOptions(**chosen)
    config = make_config(controllers=tuple(controllers), node_monitor_period=period)
    return replace(config, controllers={NodeLifecycleOptions: options})


def conditions(cluster: Cluster, **statuses: str) -> list[JSON]:
    """Return the conditions of a healthy kubelet, changed by `statuses`."""
    now = format_time(cluster.clock.now())
    healthy = dict.fromkeys(POSTED, "False") | {"Ready": "True"} | statuses
    return [
        {
            "type": each,
            "status": status,
            "reason": "KubeletSays",
            "message": "kubelet says so",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for each, status in healthy.items()
    ]


def add_node(cluster: Cluster, name: str, **metadata: Any) -> None:
    cluster.add(
        "Node",
        name,
        metadata={"name": name, **metadata},
        status={"conditions": conditions(cluster)},
    )


def tolerating(key: str) -> JSON:
    """Return the toleration that admission gives every pod, as a part of its spec."""
    toleration = {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    return {"tolerations": [toleration], "terminationGracePeriodSeconds": 0}


def add_pod(cluster: Cluster, name: str, node: str, **spec: Any) -> None:
    containers = [{"name": "c", "image": "app:v1"}]
    cluster.add(
        "Pod",
        name,
        spec={"nodeName": node, "containers": containers, **spec},
        status={
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    )


async def post(cluster: Cluster, name: str, **statuses: str) -> None:
    patch = {"status": {"conditions": conditions(cluster, **statuses)}}
    kind = PatchType.STRATEGIC
    await cluster.client.patch(NODES, "", name, patch, kind, "status")


async def renew(cluster: Cluster, name: str) -> None:
    """Renew the lease of a node, as its kubelet does; make it if there is none."""
    spec = LeaseSpec(
        holder_identity=name,
        lease_duration_seconds=40,
        renew_time=format_micro_time(cluster.clock.now()),
    )
    try:
        lease = await cluster.client.get(LEASES, NODE_LEASES, name)
    except NotFound:
        metadata = ObjectMeta(name=name, namespace=NODE_LEASES)
        await cluster.client.create(LEASES, Lease(metadata=metadata, spec=spec))
    else:
        await cluster.client.update(LEASES, structs.replace(lease, spec=spec))


@asynccontextmanager
async def heartbeats(
    cluster: Cluster, *names: str, period: float = 2.0
) -> AsyncGenerator[set[str], None]:
    """Renew the leases of nodes while entered; yields the set of their names."""
    alive = set(names)
    cluster.add_namespace(NODE_LEASES)

    async def renew_all() -> None:
        while True:
            for name in sorted(alive):
                await renew(cluster, name)
            await asyncio.sleep(period)

    task = asyncio.create_task(renew_all())
    try:
        yield alive
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def node(cluster: Cluster, name: str) -> Node:
    return await cluster.client.get(NODES, "", name)


async def taints(cluster: Cluster, name: str) -> list[str]:
    """Return the taints of a node, without the prefix of their keys."""
    found = (await node(cluster, name)).spec.taints or ()
    return [f"{each.key.rpartition('/')[2]}:{each.effect}" for each in found]


async def all_taints(cluster: Cluster) -> dict[str, list[str]]:
    page = await cluster.client.list_page(NODES)
    names = [each.metadata.name for each in page.items]
    return {name: await taints(cluster, name) for name in names}


async def statuses(cluster: Cluster, name: str) -> dict[str, str]:
    found = (await node(cluster, name)).status.conditions or ()
    return {each.type: each.status for each in found}


async def ready_pods(cluster: Cluster) -> dict[str, str]:
    page = await cluster.client.list_page(PODS)
    return {
        pod.metadata.name: each.status
        for pod in page.items
        for each in pod.status.conditions or ()
        if each.type == "Ready"
    }


async def events(cluster: Cluster) -> list[str]:
    page = await cluster.client.list_page(EVENTS)
    return sorted(
        f"{each.involved_object.kind}/{each.involved_object.name} {each.type} "
        f"{each.reason} [{each.source.component}]: {each.message}"
        for each in page.items
    )
