"""The resizer and the kubelets make volumes as large as claims ask for."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.csi.objects import (
    CSI,
    MOUNTED,
    STORAGE,
    UNIQUE_NAME,
    bind,
    claim_of,
    create_claim,
    create_volume,
    list_attached,
    volume_of,
)
from tests.devcluster.kubelet.objects import CLAIMS, CORE, create_pod, events, send

pytestmark = pytest.mark.looptime

LARGER = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
PENDING = {
    "type": "FileSystemResizePending",
    "status": "True",
    "lastProbeTime": None,
    "message": (
        "Waiting for user to (re-)start a pod to finish file system resize of volume "
        "on node."
    ),
}
GOLD = {"spec": {"volumeAttributesClassName": "gold"}}
RESIZED = (
    "p Normal FileSystemResizeSuccessful: MountVolume.NodeExpandVolume succeeded for "
    'volume "v" node-0'
)


async def bound_claim(cluster: Cluster, **spec: Any) -> None:
    await create_volume(cluster, **{**CSI, **spec})
    await create_claim(cluster)
    await bind(cluster)


async def run_pod(cluster: Cluster) -> None:
    await list_attached(cluster, UNIQUE_NAME)
    await create_pod(cluster, "p", volumes=MOUNTED)
    await asyncio.sleep(2)


async def grow(cluster: Cluster) -> JSON:
    """Ask for more, and return the status of the claim."""
    await send(cluster, "PATCH", f"{CLAIMS}/data", LARGER)
    await asyncio.sleep(0.1)
    status: JSON = (await claim_of(cluster))["status"]
    return status


async def test_a_volume_grows_and_the_file_system_waits_for_a_pod(
    cluster: Cluster,
) -> None:
    async with cluster.nodes(count=1):
        await bound_claim(cluster)
        status = await grow(cluster)
        assert [each["type"] for each in status["conditions"]] == ["Resizing"]
        assert (await volume_of(cluster))["spec"]["capacity"] == {"storage": "1Gi"}
        await asyncio.sleep(1)
        status = (await claim_of(cluster))["status"]
        (condition,) = status.pop("conditions")
        assert condition.pop("lastTransitionTime")
        assert condition == PENDING
        assert status == {
            "phase": "Bound",
            "capacity": {"storage": "1Gi"},
            "allocatedResources": {"storage": "2Gi"},
            "allocatedResourceStatuses": {"storage": "NodeResizePending"},
        }
        assert (await volume_of(cluster))["spec"]["capacity"] == {"storage": "2Gi"}
        assert await events(cluster) == [
            "data Normal Resizing: External resizer is resizing volume v",
            (
                "data Normal FileSystemResizeRequired: Require file system resize of "
                "volume on node"
            ),
        ]
        await run_pod(cluster)
        assert (await events(cluster))[2:] == [RESIZED]
        status = (await claim_of(cluster))["status"]
    assert status == {
        "phase": "Bound",
        "capacity": {"storage": "2Gi"},
        "allocatedResources": {"storage": "2Gi"},
    }


async def test_a_volume_in_use_grows(cluster: Cluster) -> None:
    async with cluster.nodes(count=1):
        await bound_claim(cluster)
        await run_pod(cluster)
        await grow(cluster)
        await asyncio.sleep(2)
        status = (await claim_of(cluster))["status"]
        assert status["capacity"] == {"storage": "2Gi"}
        assert "conditions" not in status
        assert (await events(cluster))[2:] == [RESIZED]


async def test_a_stopped_kubelet_resizes_no_file_system(cluster: Cluster) -> None:
    async with cluster.nodes(count=1):
        await bound_claim(cluster)
        await run_pod(cluster)
        for stopped, size in (("true", "1Gi"), (None, "2Gi")):
            metadata = {"annotations": {"devcluster/stopped": stopped}}
            path = f"{CORE}/nodes/node-0"
            await send(cluster, "PATCH", path, {"metadata": metadata})
            await grow(cluster)
            await asyncio.sleep(10)
            status = (await claim_of(cluster))["status"]
            assert status["capacity"] == {"storage": size}


@pytest.mark.parametrize(
    ("spec", "resizer"),
    [({"csi": {"driver": "csi.example.com", "volumeHandle": "v"}}, True), ({}, False)],
)
async def test_other_volumes_stay_as_they_are(
    cluster: Cluster, spec: JSON, *, resizer: bool
) -> None:
    async with cluster.nodes(count=1, resizer=resizer):
        await bound_claim(cluster, **spec)
        status = await grow(cluster)
        assert status == {"phase": "Bound", "capacity": {"storage": "1Gi"}}
        assert (await volume_of(cluster))["spec"]["capacity"] == {"storage": "1Gi"}


async def test_a_volume_gets_the_attributes_that_its_claim_asks_for(
    cluster: Cluster,
) -> None:
    body = {
        "metadata": {"name": "gold"},
        "driverName": "devcluster",
        "parameters": {"iops": "100"},
    }
    async with cluster.nodes(count=1):
        await bound_claim(cluster)
        await send(cluster, "PATCH", f"{CLAIMS}/data", GOLD)
        await asyncio.sleep(0.1)
        assert "volumeAttributesClassName" not in (await volume_of(cluster))["spec"]
        await send(cluster, "POST", f"{STORAGE}/volumeattributesclasses", body)
        marked = {"metadata": {"labels": {"again": "please"}}}
        await send(cluster, "PATCH", f"{CLAIMS}/data", marked)
        await asyncio.sleep(0.1)
        claim = await claim_of(cluster)
        assert claim["status"]["currentVolumeAttributesClassName"] == "gold"
        spec = (await volume_of(cluster))["spec"]
        assert spec["volumeAttributesClassName"] == "gold"
        assert [each.split(":")[0] for each in await events(cluster)] == [
            "data Warning VolumeModifyFailed",
            "data Normal VolumeModifySuccessful",
        ]
