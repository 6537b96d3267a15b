"""Volumes of the development cluster, with all controllers and the driver."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tests.clusters import Cluster, make_config
from tests.devcluster.kubelet.objects import (
    CLAIMS,
    CORE,
    PODS,
    VOLUMES,
    create_pod,
    events,
    send,
)

pytestmark = pytest.mark.looptime

ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
MOUNTED = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
}
LARGER = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}


@asynccontextmanager
async def everything(cluster: Cluster) -> AsyncGenerator[None, None]:
    """Run nodes and all controllers."""
    cluster.add_namespace("kube-node-lease")
    config = make_config(controllers=("*",))
    async with cluster.nodes(grace_scale=0.1), cluster.manager(config):
        yield


async def make_set(cluster: Cluster, replicas: int) -> None:
    """Create a stateful set whose pods have a claim each."""
    spec = {
        "replicas": replicas,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"containers": [{"name": "c", "image": "db"}]},
        },
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}],
    }
    await send(cluster, "POST", SETS, {"metadata": {"name": "db"}, "spec": spec})


async def create_claim(cluster: Cluster, name: str) -> None:
    await send(cluster, "POST", CLAIMS, {"metadata": {"name": name}, "spec": CLAIM})
    await asyncio.sleep(0.1)


async def names(cluster: Cluster, path: str) -> list[str]:
    items = (await send(cluster, "GET", path))["items"]
    return [each["metadata"]["name"] for each in items]


async def in_use(cluster: Cluster) -> list[str]:
    """Return the volumes that a node reports as in use."""
    status = (await send(cluster, "GET", f"{CORE}/nodes/node-0"))["status"]
    found: list[str] = status.get("volumesInUse", [])
    return found


async def attached(cluster: Cluster) -> list[str]:
    items = (await send(cluster, "GET", ATTACHMENTS))["items"]
    return [each["spec"]["nodeName"] for each in items if each["status"]["attached"]]


async def test_a_stateful_set_with_claims_comes_up_expands_and_goes(
    cluster: Cluster,
) -> None:
    """Its volumes are attached while its pods run; nothing of it stays."""
    async with everything(cluster):
        await make_set(cluster, 3)
        await asyncio.sleep(15)
        pods = (await send(cluster, "GET", PODS))["items"]
        assert [each["status"]["phase"] for each in pods] == ["Running"] * 3
        nodes = sorted(each["spec"]["nodeName"] for each in pods)
        assert sorted(await attached(cluster)) == nodes
        await send(cluster, "PATCH", f"{CLAIMS}/data-db-1", LARGER)
        await asyncio.sleep(3)
        claim = await send(cluster, "GET", f"{CLAIMS}/data-db-1")
        assert claim["status"]["capacity"] == {"storage": "2Gi"}
        await send(cluster, "PATCH", f"{SETS}/db", {"spec": {"replicas": 0}})
        await asyncio.sleep(30)
        assert await attached(cluster) == []
        assert len(await names(cluster, VOLUMES)) == 3
        for number in range(3):
            await send(cluster, "DELETE", f"{CLAIMS}/data-db-{number}")
        await asyncio.sleep(30)
        assert await names(cluster, CLAIMS) == []
        assert await names(cluster, VOLUMES) == []


async def test_claims_and_volumes_in_use_are_protected(cluster: Cluster) -> None:
    async with everything(cluster):
        await make_set(cluster, 1)
        await asyncio.sleep(5)
        (volume,) = await names(cluster, VOLUMES)
        await send(cluster, "DELETE", f"{VOLUMES}/{volume}")
        await send(cluster, "DELETE", f"{CLAIMS}/data-db-0")
        await asyncio.sleep(60)
        assert await names(cluster, CLAIMS) == ["data-db-0"]
        assert await names(cluster, VOLUMES) == [volume]
        await send(cluster, "DELETE", f"{SETS}/db", {"propagationPolicy": "Background"})
        await asyncio.sleep(30)
        assert await names(cluster, CLAIMS) == []
        assert await names(cluster, VOLUMES) == []


@pytest.mark.parametrize("successor", ["b", "a"])
async def test_a_volume_is_detached_from_a_lost_node_by_force(
    cluster: Cluster, successor: str
) -> None:
    """After six minutes; until then the pod on another node waits for it.

    A stateful set gives it the name of the pod on the lost node.
    """
    async with everything(cluster):
        await create_claim(cluster, "data")
        at_node_0 = {"kubernetes.io/hostname": "node-0"}
        await create_pod(cluster, "a", volumes=MOUNTED, nodeSelector=at_node_0)
        await asyncio.sleep(5)
        assert await attached(cluster) == ["node-0"]
        (name,) = await in_use(cluster)
        stopped = {"metadata": {"annotations": {"devcluster/stopped": "true"}}}
        await send(cluster, "PATCH", f"{CORE}/nodes/node-0", stopped)
        await send(cluster, "DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
        at_node_1 = {"kubernetes.io/hostname": "node-1"}
        await create_pod(cluster, successor, volumes=MOUNTED, nodeSelector=at_node_1)
        await asyncio.sleep(300)
        assert await attached(cluster) == ["node-0"]
        assert await in_use(cluster) == [name]
        told = [each for each in await events(cluster) if "FailedAttachVolume" in each]
        assert [each.partition(":")[0] for each in told] == [
            f"{successor} Warning FailedAttachVolume"
        ]
        await asyncio.sleep(120)
        assert await attached(cluster) == ["node-1"]
        pod = await send(cluster, "GET", f"{PODS}/{successor}")
        assert pod["status"]["phase"] == "Running"
