"""Kubelets wait for volumes, and report the volumes in use."""

import asyncio

import pytest

from tests.clusters import Cluster
from tests.devcluster.csi.objects import (
    CSI,
    MOUNTED,
    STORAGE,
    UNIQUE_NAME,
    bind,
    create_claim,
    create_volume,
    in_use,
    list_attached,
)
from tests.devcluster.kubelet.objects import (
    CORE,
    PODS,
    create_pod,
    events,
    send,
    status_of,
)

pytestmark = pytest.mark.looptime


async def bound_claim(cluster: Cluster, **spec: object) -> None:
    await create_volume(cluster, **(spec or CSI))
    await create_claim(cluster)
    await bind(cluster)


async def phase(cluster: Cluster, name: str = "p") -> str:
    await asyncio.sleep(2)
    return str((await status_of(cluster, name))["phase"])


async def test_a_pod_starts_when_its_volume_is_attached(cluster: Cluster) -> None:
    async with cluster.nodes(count=1):
        await bound_claim(cluster)
        await create_pod(cluster, "p", volumes=MOUNTED)
        assert await phase(cluster) == "Pending"
        assert await in_use(cluster) == [UNIQUE_NAME]
        await list_attached(cluster, UNIQUE_NAME)
        assert await phase(cluster) == "Running"
        await send(cluster, "DELETE", f"{PODS}/p")
        await asyncio.sleep(29)
        assert await in_use(cluster) == [UNIQUE_NAME]
        await asyncio.sleep(2)
        assert await in_use(cluster) == []


async def test_a_volume_is_in_use_as_long_as_one_pod_uses_it(cluster: Cluster) -> None:
    """Or until all have ended."""
    async with cluster.nodes(count=1):
        await bound_claim(cluster)
        await list_attached(cluster, UNIQUE_NAME)
        seconds = {"devcluster/run-seconds": "5"}
        policy = {"restartPolicy": "Never"}
        await create_pod(cluster, "p", volumes=MOUNTED)
        await create_pod(cluster, "q", volumes=MOUNTED, annotations=seconds, **policy)
        await asyncio.sleep(10)
        assert await phase(cluster, "q") == "Succeeded"
        assert await in_use(cluster) == [UNIQUE_NAME]
        await send(cluster, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        await asyncio.sleep(1)
        assert await in_use(cluster) == []


@pytest.mark.parametrize("is_attachable", [True, False])
async def test_only_volumes_that_are_attached_are_waited_for(
    cluster: Cluster, *, is_attachable: bool
) -> None:
    """Not those of a driver that says so, nor directories."""
    driver = {"metadata": {"name": "d"}, "spec": {"attachRequired": is_attachable}}
    csi = {"driver": "d", "volumeHandle": "v"}
    async with cluster.nodes(count=1):
        await send(cluster, "POST", f"{STORAGE}/csidrivers", driver)
        await bound_claim(cluster, csi=csi)
        await create_pod(cluster, "p", volumes=MOUNTED)
        assert await phase(cluster) == ("Pending" if is_attachable else "Running")
        assert await in_use(cluster) == (
            ["kubernetes.io/csi/d^v"] if is_attachable else []
        )


async def test_a_pod_that_was_put_on_a_node_waits_for_its_claim(
    cluster: Cluster,
) -> None:
    async with cluster.nodes(count=1):
        await create_pod(cluster, "p", volumes=MOUNTED, nodeName="node-0")
        await create_claim(cluster)
        await create_volume(cluster)
        assert await phase(cluster) == "Pending"
        await bind(cluster)
        assert await phase(cluster) == "Running"


async def test_a_kubelet_tells_of_volumes_that_are_late(cluster: Cluster) -> None:
    """After two minutes, and again as long as the pod waits for them."""
    async with cluster.nodes(count=1):
        await bound_claim(cluster)
        await create_pod(cluster, "p", volumes=MOUNTED)
        await asyncio.sleep(400)
        await list_attached(cluster, UNIQUE_NAME)
        await asyncio.sleep(400)
        assert await events(cluster) == [
            (
                "p Warning FailedMount: Unable to attach or mount volumes: unmounted "
                "volumes=[v], unattached volumes=[], failed to process volumes=[]: "
                "context deadline exceeded (x2)"
            )
        ]


async def test_a_stopped_kubelet_reports_its_volumes_as_in_use(
    cluster: Cluster,
) -> None:
    """Also if their pods are gone, until it works again."""
    async with cluster.nodes(count=1):
        await bound_claim(cluster)
        await list_attached(cluster, UNIQUE_NAME)
        await create_pod(cluster, "p", volumes=MOUNTED)
        assert await phase(cluster) == "Running"
        await stop(cluster, "node-0")
        await send(cluster, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        await asyncio.sleep(1)
        assert await in_use(cluster) == [UNIQUE_NAME]
        await start(cluster, "node-0")
        assert await in_use(cluster) == []


async def test_successors_of_one_name_leave_the_volumes_of_stopped_kubelets(
    cluster: Cluster,
) -> None:
    """Each kubelet unmounts the volumes of its own pod when it works again."""
    nodes = ["node-0", "node-1", "node-2"]

    async def used() -> list[str]:
        return [each for each in nodes if await in_use(cluster, each) == [UNIQUE_NAME]]

    async with cluster.nodes(count=3):
        await bound_claim(cluster)
        for node in nodes:
            await list_attached(cluster, UNIQUE_NAME, node=node)
            await create_pod(cluster, "p", volumes=MOUNTED, nodeName=node)
            assert await phase(cluster) == "Running"
            if node != "node-2":
                await stop(cluster, node)
                await send(cluster, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        assert await used() == nodes
        await start(cluster, "node-1")
        assert await used() == ["node-0", "node-2"]
        await send(cluster, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        await asyncio.sleep(0.1)
        assert await used() == ["node-0"]
        await start(cluster, "node-0")
        assert await used() == []


async def test_a_node_that_is_registered_again_reports_no_former_volumes(
    cluster: Cluster,
) -> None:
    async with cluster.nodes(count=1):
        await bound_claim(cluster)
        await list_attached(cluster, UNIQUE_NAME)
        await create_pod(cluster, "p", volumes=MOUNTED)
        assert await phase(cluster) == "Running"
        await stop(cluster, "node-0")
        await send(cluster, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        await asyncio.sleep(0.1)
        await send(cluster, "DELETE", f"{CORE}/nodes/node-0")
        await send(cluster, "POST", f"{CORE}/nodes", {"metadata": {"name": "node-0"}})
        await asyncio.sleep(15)
        other = {"driver": "devcluster", "volumeHandle": "w"}
        await create_volume(cluster, "w", csi=other)
        await create_claim(cluster, "other")
        await bind(cluster, "w", "other")
        mounted = [{"name": "v", "persistentVolumeClaim": {"claimName": "other"}}]
        await create_pod(cluster, "q", volumes=mounted, nodeName="node-0")
        await asyncio.sleep(1)
        assert await in_use(cluster) == ["kubernetes.io/csi/devcluster^w"]


async def stop(cluster: Cluster, node: str) -> None:
    """Stop the kubelet of a node."""
    await _annotate(cluster, node, "true")


async def start(cluster: Cluster, node: str) -> None:
    """Start the stopped kubelet of a node again."""
    await _annotate(cluster, node, None)


async def _annotate(cluster: Cluster, node: str, value: str | None) -> None:
    change = {"metadata": {"annotations": {"devcluster/stopped": value}}}
    await send(cluster, "PATCH", f"{CORE}/nodes/{node}", change)
    await asyncio.sleep(0.1)
