"""The provisioner makes the volumes that claims ask for, and deletes them."""

import asyncio
from typing import Any

import pytest

from tests.clusters import Cluster
from tests.devcluster.csi.objects import (
    CLASSES,
    ask,
    claim_of,
    create_claim,
    set_phase,
    volume_of,
    volumes,
)
from tests.devcluster.kubelet.objects import CLAIMS, VOLUMES, events, send

pytestmark = pytest.mark.looptime

FINALIZERS = [
    "external-provisioner.volume.kubernetes.io/finalizer",
    "kubernetes.io/pv-protection",
]
SELECTED = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}}
UNPROTECTED = {"metadata": {"finalizers": FINALIZERS[:1]}}


async def provision(cluster: Cluster, **spec: Any) -> str:
    """Let the driver make a volume; return its name."""
    await create_claim(cluster, **{"storageClassName": "immediate", **spec})
    await ask(cluster)
    (name,) = await volumes(cluster)
    return name


async def test_a_claim_that_asks_gets_a_volume(cluster: Cluster) -> None:
    """Made as its class says, for this claim, and held until it can be deleted."""
    async with cluster.nodes():
        claim = await create_claim(cluster, storageClassName="immediate")
        assert await volumes(cluster) == []
        await ask(cluster)
        name = f"pvc-{claim['metadata']['uid']}"
        volume = await volume_of(cluster, name)
        full = 'External provisioner is provisioning volume for claim "default/data"'
        done = f"Successfully provisioned volume {name}"
        assert await events(cluster) == [
            f"data Normal Provisioning: {full}",
            f"data Normal ProvisioningSucceeded: {done}",
        ]
        version = (await claim_of(cluster))["metadata"]["resourceVersion"]
    metadata = volume["metadata"]
    assert metadata["annotations"] == {
        "pv.kubernetes.io/provisioned-by": "devcluster",
        "volume.kubernetes.io/provisioner-deletion-secret-name": "",
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
    }
    assert metadata["finalizers"] == FINALIZERS
    assert volume["spec"] == {
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "devcluster", "volumeHandle": name},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": "default",
            "name": "data",
            "uid": claim["metadata"]["uid"],
            "resourceVersion": version,
        },
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "immediate",
        "volumeMode": "Filesystem",
    }


async def test_a_class_says_how_volumes_are_made(cluster: Cluster) -> None:
    """Its policy and mount options; the attributes are the claim's."""
    body = {
        "metadata": {"name": "kept"},
        "provisioner": "devcluster",
        "reclaimPolicy": "Retain",
        "mountOptions": ["ro"],
    }
    async with cluster.nodes():
        await send(cluster, "POST", CLASSES, body)
        gold = {"storageClassName": "kept", "volumeAttributesClassName": "gold"}
        name = await provision(cluster, volumeMode="Block", **gold)
        volume = await volume_of(cluster, name)
        assert volume["metadata"]["finalizers"] == FINALIZERS[1:]
        assert {
            "persistentVolumeReclaimPolicy": "Retain",
            "mountOptions": ["ro"],
            "volumeMode": "Block",
            "volumeAttributesClassName": "gold",
        }.items() <= volume["spec"].items()
        await set_phase(cluster, name, "Released")
        assert await volumes(cluster) == [name]


async def test_a_claim_of_a_class_that_waits_needs_a_node(cluster: Cluster) -> None:
    async with cluster.nodes():
        await create_claim(cluster)
        await ask(cluster)
        assert await volumes(cluster) == []
        await send(cluster, "PATCH", f"{CLAIMS}/data", SELECTED)
        await asyncio.sleep(0.1)
        assert len(await volumes(cluster)) == 1


async def test_a_claim_with_a_selector_gets_no_volume(cluster: Cluster) -> None:
    """An event says so."""
    async with cluster.nodes():
        selector = {"matchLabels": {"tier": "gold"}}
        await create_claim(cluster, storageClassName="immediate", selector=selector)
        await ask(cluster)
        assert await volumes(cluster) == []
        assert await events(cluster) == [
            (
                "data Warning ProvisioningFailed: failed to provision volume with "
                'StorageClass "immediate": claim Selector is not supported'
            )
        ]


async def test_a_released_volume_is_deleted(cluster: Cluster) -> None:
    """The finalizer of the provisioner goes last; that of others is theirs."""
    async with cluster.nodes():
        name = await provision(cluster)
        await set_phase(cluster, name, "Bound")
        await send(cluster, "DELETE", f"{VOLUMES}/{name}")
        await asyncio.sleep(0.1)
        held = await volume_of(cluster, name)
        assert held["metadata"]["finalizers"] == FINALIZERS
        await set_phase(cluster, name, "Released")
        held = await volume_of(cluster, name)
        assert held["metadata"]["finalizers"] == FINALIZERS[1:]


async def test_a_volume_that_is_free_of_protection_goes_at_once(
    cluster: Cluster,
) -> None:
    async with cluster.nodes():
        name = await provision(cluster)
        await send(cluster, "PATCH", f"{VOLUMES}/{name}", UNPROTECTED)
        await set_phase(cluster, name, "Released")
        assert await volumes(cluster) == []


async def test_a_volume_with_another_policy_has_another_finalizer(
    cluster: Cluster,
) -> None:
    async with cluster.nodes():
        name = await provision(cluster)
        for policy, expected in (("Retain", FINALIZERS[1:]), ("Delete", FINALIZERS)):
            change = {"spec": {"persistentVolumeReclaimPolicy": policy}}
            await send(cluster, "PATCH", f"{VOLUMES}/{name}", change)
            await asyncio.sleep(0.1)
            found = (await volume_of(cluster, name))["metadata"]["finalizers"]
            assert sorted(found) == expected


async def test_the_provisioner_can_be_left_out(cluster: Cluster) -> None:
    async with cluster.nodes(provisioner=False):
        await create_claim(cluster, storageClassName="immediate")
        await ask(cluster)
        assert await volumes(cluster) == []
