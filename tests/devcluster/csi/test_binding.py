"""The scheduler looks at the claims of pods, and prepares them to be bound."""

import asyncio

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.csi.objects import (
    CLASSES,
    MOUNTED,
    bind,
    claim_of,
    create_claim,
    create_volume,
    volume_of,
)
from tests.devcluster.kubelet.objects import (
    CLAIMS,
    PODS,
    VOLUMES,
    condition,
    create_pod,
    events,
    send,
    status_of,
)
from tests.devcluster.rows import parsed

pytestmark = pytest.mark.looptime

SELECTED = "volume.kubernetes.io/selected-node"
OF_NODE_1 = parsed("""
    required:
      nodeSelectorTerms:
        - matchExpressions:
            [{key: kubernetes.io/hostname, operator: In, values: [node-1]}]""")


def unschedulable(total: int, reasons: str) -> str:
    return (
        f"0/{total} nodes are available: {reasons}. no new claims to deallocate, "
        f"preemption: 0/{total} nodes are available: {total} Preemption is not helpful "
        "for scheduling."
    )


async def reason(cluster: Cluster, total: int = 1) -> str:
    """Return why the pod has no node, without the constant part of the message."""
    await asyncio.sleep(0.1)
    message = condition(await status_of(cluster, "p"), "PodScheduled")[2]
    text = message.removeprefix(f"0/{total} nodes are available: ").partition(". no")[0]
    assert message == unschedulable(total, text)
    return text


async def node_of(cluster: Cluster) -> str:
    await asyncio.sleep(0.1)
    spec = (await send(cluster, "GET", f"{PODS}/p"))["spec"]
    return str(spec.get("nodeName", ""))


async def test_a_claim_on_demand_is_told_the_node(cluster: Cluster) -> None:
    async with cluster.nodes(count=1):
        await create_claim(cluster)
        await create_pod(cluster, "p", volumes=MOUNTED)
        assert await node_of(cluster) == ""
        claim = await claim_of(cluster)
        assert claim["metadata"]["annotations"] == {SELECTED: "node-0"}
        assert "conditions" not in await status_of(cluster, "p")
        await create_volume(cluster, "made", storageClassName="other")
        await bind(cluster, "made")
        assert await node_of(cluster) == "node-0"


async def test_a_pod_goes_where_a_volume_is_being_made(cluster: Cluster) -> None:
    async with cluster.nodes(count=3):
        await create_claim(cluster)
        selected = {"metadata": {"annotations": {SELECTED: "node-2"}}}
        await send(cluster, "PATCH", f"{CLAIMS}/data", selected)
        await create_pod(cluster, "p", volumes=MOUNTED)
        await create_volume(cluster, "made", storageClassName="other")
        await bind(cluster, "made")
        assert await node_of(cluster) == "node-2"


async def test_a_volume_that_fits_is_reserved(cluster: Cluster) -> None:
    """The smallest on the node; a volume reserved for the claim goes first."""
    async with cluster.nodes(count=2):
        large, small = ({"storage": each} for each in ("5Gi", "2Gi"))
        await create_volume(cluster, "large", capacity=large)
        await create_volume(cluster, "fits", capacity=small, nodeAffinity=OF_NODE_1)
        await create_volume(cluster, "tiny", capacity={"storage": "1Mi"})
        await create_volume(cluster, "block", volumeMode="Block")
        await create_claim(cluster)
        at_node_1 = {"kubernetes.io/hostname": "node-1"}
        await create_pod(cluster, "p", volumes=MOUNTED, nodeSelector=at_node_1)
        assert await node_of(cluster) == ""
        volume = await volume_of(cluster, "fits")
        claim = await claim_of(cluster)
        assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
        annotations = {"pv.kubernetes.io/bound-by-controller": "yes"}
        assert volume["metadata"]["annotations"] == annotations
        assert "annotations" not in claim["metadata"]
        await bind(cluster, "fits")
        assert await node_of(cluster) == "node-1"


async def test_a_pod_goes_where_its_volume_is(cluster: Cluster) -> None:
    """Or waits, if it cannot."""
    async with cluster.nodes(count=2):
        await create_volume(cluster, nodeAffinity=OF_NODE_1)
        await create_claim(cluster)
        await bind(cluster)
        await create_pod(cluster, "p", volumes=MOUNTED)
        assert await node_of(cluster) == "node-1"
        await send(cluster, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        at_node_0 = {"kubernetes.io/hostname": "node-0"}
        await create_pod(cluster, "p", volumes=MOUNTED, nodeSelector=at_node_0)
        assert await reason(cluster, 2) == (
            "1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) didn't "
            "match Pod's node affinity/selector"
        )


async def test_a_claim_without_provisioner_needs_a_volume(cluster: Cluster) -> None:
    """The pod waits for one."""
    body = {
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    async with cluster.nodes(count=1):
        await send(cluster, "POST", CLASSES, body)
        await create_claim(cluster, storageClassName="local")
        await create_pod(cluster, "p", volumes=MOUNTED)
        assert await reason(cluster) == (
            "1 node(s) didn't find available persistent volumes to bind"
        )
        await create_volume(cluster, storageClassName="local")
        await asyncio.sleep(60)
        assert "claimRef" in (await volume_of(cluster))["spec"]


async def test_a_claim_for_one_pod_keeps_others_from_all_nodes(
    cluster: Cluster,
) -> None:
    async with cluster.nodes(count=2):
        only: JSON = {"accessModes": ["ReadWriteOncePod"]}
        await create_volume(cluster, **only)
        await create_claim(cluster, **only)
        await bind(cluster)
        await create_pod(cluster, "first", volumes=MOUNTED)
        await create_pod(cluster, "p", volumes=MOUNTED)
        await asyncio.sleep(0.1)
        message = condition(await status_of(cluster, "p"), "PodScheduled")[2]
        await send(cluster, "DELETE", f"{PODS}/first", {"gracePeriodSeconds": 0})
        assert await node_of(cluster) != ""
    assert message == (
        "0/2 nodes are available: 2 node has pod using PersistentVolumeClaim with the "
        "same name and ReadWriteOncePod access mode. no new claims to deallocate, "
        "preemption: 0/2 nodes are available: 2 No preemption victims found for "
        "incoming pod."
    )


async def test_a_lost_or_deleted_claim_keeps_its_pod_from_all_nodes(
    cluster: Cluster,
) -> None:
    """As does one whose volume is gone."""
    async with cluster.nodes(count=1):
        await create_volume(cluster)
        await create_claim(cluster)
        await bind(cluster)
        free = {"metadata": {"finalizers": None}}
        await send(cluster, "PATCH", f"{VOLUMES}/v", free)
        await send(cluster, "DELETE", f"{VOLUMES}/v")
        await create_pod(cluster, "p", volumes=MOUNTED)
        assert await reason(cluster) == (
            "1 node(s) unavailable due to one or more pvc(s) bound to non-existent "
            "pv(s)"
        )
        lost = {"status": {"phase": "Lost"}}
        await send(cluster, "PATCH", f"{CLAIMS}/data/status", lost)
        assert await reason(cluster) == (
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"'
        )
        bound = {"status": {"phase": "Bound"}}
        await send(cluster, "PATCH", f"{CLAIMS}/data/status", bound)
        await send(cluster, "DELETE", f"{CLAIMS}/data")
        assert await reason(cluster) == 'persistentvolumeclaim "data" is being deleted'


async def test_a_pod_whose_reserved_volume_is_taken_away_is_scheduled_anew(
    cluster: Cluster,
) -> None:
    async with cluster.nodes(count=1):
        await create_volume(cluster, "a")
        await create_claim(cluster)
        await create_pod(cluster, "p", volumes=MOUNTED)
        await asyncio.sleep(0.1)
        free = {"metadata": {"finalizers": None}}
        await send(cluster, "PATCH", f"{VOLUMES}/a", free)
        await send(cluster, "DELETE", f"{VOLUMES}/a")
        await asyncio.sleep(61)
        (event,) = await events(cluster)
        assert event.endswith('claimRef got reset for PV "a"')
        claim = await claim_of(cluster)
        assert claim["metadata"]["annotations"] == {SELECTED: "node-0"}
