"""Devices of the development cluster, with all controllers."""

import asyncio

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster, make_config
from tests.devcluster.nodes.objects import DEFAULT, PODS, create_pod, send, status_of

pytestmark = pytest.mark.looptime

GROUP = "/apis/resource.k8s.io/v1"
NAMESPACED = f"{GROUP}/namespaces/default"
REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
USES = [{"name": "g", "resourceClaimTemplateName": "t"}]


async def publish(cluster: Cluster, devices: int) -> None:
    """Create a class, a slice with so many devices, and a template of claims."""
    metadata = {"metadata": {"name": "gpu"}}
    await send(cluster, "POST", f"{GROUP}/deviceclasses", {**metadata, "spec": {}})
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "node-1",
        "pool": {"name": "node-1", "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{number}"} for number in range(devices)],
    }
    await send(cluster, "POST", f"{GROUP}/resourceslices", {**metadata, "spec": spec})
    spec = {"spec": {"devices": {"requests": [REQUEST]}}}
    template = {"metadata": {"name": "t"}, "spec": spec}
    await send(cluster, "POST", f"{NAMESPACED}/resourceclaimtemplates", template)


async def claims(cluster: Cluster) -> list[JSON]:
    items: list[JSON] = (await send(cluster, "GET", f"{NAMESPACED}/resourceclaims"))[
        "items"
    ]
    return items


async def test_a_pod_gets_a_device_of_its_own_until_it_goes(cluster: Cluster) -> None:
    """The next one waits for it; claims from templates go with their pods."""
    config = make_config(controllers=("*",))
    async with cluster.nodes(grace_scale=0), cluster.manager(config):
        await publish(cluster, 1)
        await create_pod(cluster, "p", resourceClaims=USES)
        await asyncio.sleep(5)
        (claim,) = await claims(cluster)
        users = claim["status"]["reservedFor"]
        assert [each["name"] for each in users] == ["p"]
        assert (await status_of(cluster, "p"))["phase"] == "Running"
        await create_pod(cluster, "q", resourceClaims=USES)
        await asyncio.sleep(5)
        assert (await status_of(cluster, "q"))["phase"] == "Pending"
        await send(cluster, "DELETE", f"{PODS}/p")
        await asyncio.sleep(90)
        pod = await send(cluster, "GET", f"{DEFAULT}/pods/q")
        assert (pod["spec"]["nodeName"], pod["status"]["phase"]) == (
            "node-1",
            "Running",
        )
        (claim,) = await claims(cluster)
        assert [each["name"] for each in claim["status"]["reservedFor"]] == ["q"]
        await send(cluster, "DELETE", f"{PODS}/q")
        await asyncio.sleep(30)
        assert await claims(cluster) == []
