"""Claims to devices in the development cluster, with all controllers."""

import asyncio

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster, make_config
from tests.devcluster.kubelet.objects import PODS, create_pod, send, status_of

pytestmark = pytest.mark.looptime

GROUP = "/apis/resource.k8s.io/v1"
NAMESPACED = f"{GROUP}/namespaces/default"
REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
USES = [{"name": "g", "resourceClaimTemplateName": "t"}]


async def add_template(cluster: Cluster) -> None:
    metadata = {"metadata": {"name": "gpu"}}
    await send(cluster, "POST", f"{GROUP}/deviceclasses", {**metadata, "spec": {}})
    spec = {"spec": {"devices": {"requests": [REQUEST]}}}
    template = {"metadata": {"name": "t"}, "spec": spec}
    await send(cluster, "POST", f"{NAMESPACED}/resourceclaimtemplates", template)


async def claims(cluster: Cluster) -> list[JSON]:
    items: list[JSON] = (await send(cluster, "GET", f"{NAMESPACED}/resourceclaims"))[
        "items"
    ]
    return items


async def test_a_pod_has_a_claim_of_its_own_until_it_goes(cluster: Cluster) -> None:
    """It waits until a client has allocated devices; the claim goes with the pod."""
    config = make_config(controllers=("*",))
    async with cluster.nodes(grace_scale=0), cluster.manager(config):
        await add_template(cluster)
        await create_pod(cluster, "p", resourceClaims=USES)
        await asyncio.sleep(5)
        (claim,) = await claims(cluster)
        assert (await status_of(cluster, "p"))["phase"] == "Pending"
        result = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-0"}
        status = {"status": {"allocation": {"devices": {"results": [result]}}}}
        path = f"{NAMESPACED}/resourceclaims/{claim['metadata']['name']}/status"
        await send(cluster, "PATCH", path, status)
        await asyncio.sleep(5)
        (claim,) = await claims(cluster)
        users = claim["status"]["reservedFor"]
        assert [each["name"] for each in users] == ["p"]
        assert (await status_of(cluster, "p"))["phase"] == "Running"
        await send(cluster, "DELETE", f"{PODS}/p")
        await asyncio.sleep(90)
        assert await claims(cluster) == []
