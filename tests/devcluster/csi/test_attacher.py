"""The attacher attaches and detaches volumes, as attachments ask for it."""

import asyncio

import pytest

from tests.clusters import Cluster
from tests.devcluster.csi.objects import (
    ATTACHMENTS,
    CSI,
    attach,
    create_volume,
    volume_of,
    volumes,
)
from tests.devcluster.kubelet.objects import VOLUMES, send
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

FINALIZER = "external-attacher/devcluster"
PROTECTION = "kubernetes.io/pv-protection"


async def test_an_attachment_is_attached_and_held(cluster: Cluster) -> None:
    """So is its volume."""
    async with cluster.nodes():
        await create_volume(cluster, **CSI)
        attachment = await attach(cluster)
        volume = await volume_of(cluster)
    metadata = attachment["metadata"]
    assert metadata["annotations"] == {"csi.alpha.kubernetes.io/node-id": "node-0"}
    assert metadata["finalizers"] == [FINALIZER]
    assert attachment["status"] == {"attached": True}
    assert volume["metadata"]["finalizers"] == [PROTECTION, FINALIZER]


async def test_a_deleted_attachment_is_detached_and_goes(cluster: Cluster) -> None:
    async with cluster.nodes():
        await create_volume(cluster, **CSI)
        await attach(cluster)
        free = {"metadata": {"finalizers": [FINALIZER]}}
        await send(cluster, "PATCH", f"{VOLUMES}/v", free)
        await send(cluster, "DELETE", f"{VOLUMES}/v")
        await asyncio.sleep(0.1)
        assert await volumes(cluster) == ["v"]
        await send(cluster, "DELETE", f"{ATTACHMENTS}/csi-v")
        await asyncio.sleep(0.1)
        assert (await call(cluster, "GET", f"{ATTACHMENTS}/csi-v")).status == 404
        assert await volumes(cluster) == []


async def test_an_attachment_of_no_volume_waits_for_it(cluster: Cluster) -> None:
    async with cluster.nodes():
        attachment = await attach(cluster)
        error = attachment["status"]["attachError"]
        assert error["message"] == 'persistentvolume "v" not found'
        await create_volume(cluster, **CSI)
        attachment = await send(cluster, "GET", f"{ATTACHMENTS}/csi-v")
        assert attachment["status"] == {"attached": True}


@pytest.mark.parametrize("is_left_out", [True, False])
async def test_attachments_of_others_are_left_alone(
    cluster: Cluster, *, is_left_out: bool
) -> None:
    async with cluster.nodes(attacher=not is_left_out):
        await create_volume(cluster, **CSI)
        spec = {
            "attacher": "devcluster" if is_left_out else "csi.example.com",
            "nodeName": "node-0",
            "source": {"persistentVolumeName": "v"},
        }
        body = {"metadata": {"name": "a"}, "spec": spec}
        created = await send(cluster, "POST", ATTACHMENTS, body)
        await asyncio.sleep(1)
        assert await send(cluster, "GET", f"{ATTACHMENTS}/a") == created
