"""Claims get bound, and volumes go with them."""

import asyncio
from typing import Any

import pytest

from tests.clusters import Cluster
from tests.devcluster.nodes.objects import (
    CLAIMS,
    VOLUMES,
    create_pod,
    events,
    send,
)

JSON = dict[str, Any]

NOW = "2026-01-01T00:00:00Z"
MOUNTED = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]


async def create_claim(cluster: Cluster, name: str = "data", **spec: Any) -> None:
    full = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        **spec,
    }
    body = {"metadata": {"name": name}, "spec": full}
    await send(cluster, "POST", CLAIMS, body)
    await asyncio.sleep(0.1)


async def create_volume(cluster: Cluster, name: str, size: str, **spec: Any) -> None:
    full = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": f"/data/{name}"},
        **spec,
    }
    await send(cluster, "POST", VOLUMES, {"metadata": {"name": name}, "spec": full})
    await asyncio.sleep(0.1)


async def claim_of(cluster: Cluster, name: str = "data") -> JSON:
    return await send(cluster, "GET", f"{CLAIMS}/{name}")


async def volumes(cluster: Cluster) -> dict[str, str]:
    """Return the phase of each volume."""
    items = (await send(cluster, "GET", VOLUMES))["items"]
    return {each["metadata"]["name"]: each["status"]["phase"] for each in items}


@pytest.mark.looptime
async def test_a_claim_gets_a_volume_that_is_made_for_it(cluster: Cluster) -> None:
    """At once, if its class says Immediate; both objects name each other."""
    async with cluster.nodes():
        await create_claim(cluster, storageClassName="immediate")
        claim = await claim_of(cluster)
        uid = claim["metadata"]["uid"]
        name = f"pvc-{uid}"
        assert claim["metadata"]["annotations"] == {
            "pv.kubernetes.io/bind-completed": "yes",
            "pv.kubernetes.io/bound-by-controller": "yes",
            "volume.kubernetes.io/storage-provisioner": "devcluster",
        }
        assert claim["spec"]["volumeName"] == name
        assert claim["status"] == {
            "phase": "Bound",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
        }
        volume = await send(cluster, "GET", f"{VOLUMES}/{name}")
    reference = volume["spec"].pop("claimRef")
    assert (reference["namespace"], reference["name"]) == ("default", "data")
    assert reference["uid"] == uid
    assert volume["metadata"]["annotations"] == {
        "pv.kubernetes.io/provisioned-by": "devcluster"
    }
    assert volume["spec"] == {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "immediate",
        "volumeMode": "Filesystem",
        "csi": {"driver": "devcluster", "volumeHandle": name},
    }
    assert volume["status"] == {"phase": "Bound", "lastPhaseTransitionTime": NOW}


@pytest.mark.looptime
async def test_a_claim_of_the_default_class_waits_for_a_pod(cluster: Cluster) -> None:
    """It gets the class, and is bound when a pod that uses it is scheduled."""
    async with cluster.nodes(count=1):
        await create_claim(cluster)
        claim = await claim_of(cluster)
        assert claim["spec"]["storageClassName"] == "standard"
        assert claim["status"]["phase"] == "Pending"
        assert await volumes(cluster) == {}
        message = "waiting for first consumer to be created before binding"
        assert await events(cluster) == [f"data Normal WaitForFirstConsumer: {message}"]
        await create_pod(cluster, "p", volumes=MOUNTED)
        await asyncio.sleep(2)
        claim = await claim_of(cluster)
        assert claim["status"]["phase"] == "Bound"
        annotations = claim["metadata"]["annotations"]
        assert annotations["volume.kubernetes.io/selected-node"] == "node-0"
        assert await volumes(cluster) == {claim["spec"]["volumeName"]: "Bound"}
        pod = await send(cluster, "GET", "/api/v1/namespaces/default/pods/p")
        assert pod["status"]["phase"] == "Running"


@pytest.mark.looptime
async def test_a_volume_goes_with_its_claim_if_its_policy_says_so(
    cluster: Cluster,
) -> None:
    """Another one is released, and nobody gets it again."""
    async with cluster.nodes():
        await create_claim(cluster, storageClassName="immediate")
        await create_volume(cluster, "kept", "1Gi")
        await create_claim(cluster, "other", storageClassName="")
        for name in ("data", "other"):
            patch = {"metadata": {"finalizers": None}}
            await send(cluster, "PATCH", f"{CLAIMS}/{name}", patch)
            await send(cluster, "DELETE", f"{CLAIMS}/{name}")
        await asyncio.sleep(0.1)
        assert await volumes(cluster) == {"kept": "Released"}
        await create_claim(cluster, "next", storageClassName="")
        assert (await claim_of(cluster, "next"))["status"]["phase"] == "Pending"


@pytest.mark.looptime
async def test_the_smallest_volume_that_satisfies_a_claim_is_taken(
    cluster: Cluster,
) -> None:
    """By class, size, access modes and labels; it may come later than the claim."""
    async with cluster.nodes():
        await create_volume(cluster, "small", "512Mi")
        await create_volume(cluster, "large", "10Gi")
        await create_volume(cluster, "fitting", "2Gi")
        await create_volume(cluster, "other-class", "1Gi", storageClassName="x")
        await create_volume(cluster, "reserved", "1Gi", claimRef={"name": "y"})
        assert set((await volumes(cluster)).values()) == {"Available"}
        await create_claim(cluster, storageClassName="")
        assert (await claim_of(cluster))["spec"]["volumeName"] == "fitting"
        await create_claim(
            cluster, "shared", storageClassName="", accessModes=["ReadWriteMany"]
        )
        selector = {"matchLabels": {"tier": "gold"}}
        await create_claim(cluster, "gold", storageClassName="", selector=selector)
        message = (
            "no persistent volumes available for this claim and no storage class is set"
        )
        assert await events(cluster) == [
            f"{name} Normal FailedBinding: {message}" for name in ("gold", "shared")
        ]
        await create_volume(cluster, "s", "1Gi", accessModes=["ReadWriteMany"])
        labelled = {"metadata": {"labels": {"tier": "gold"}}}
        await send(cluster, "PATCH", f"{VOLUMES}/large", labelled)
        await asyncio.sleep(0.1)
        found = [
            (await claim_of(cluster, name))["spec"].get("volumeName")
            for name in ("shared", "gold")
        ]
        assert found == ["s", "large"]


@pytest.mark.looptime
async def test_a_claim_that_names_a_volume_gets_it_or_waits(cluster: Cluster) -> None:
    """No other volume is made for it."""
    async with cluster.nodes():
        await create_claim(cluster, storageClassName="", volumeName="mine")
        await create_volume(cluster, "other", "1Gi")
        assert (await claim_of(cluster))["status"]["phase"] == "Pending"
        await create_volume(cluster, "mine", "5Gi")
        claim = await claim_of(cluster)
        assert claim["status"] == {
            "phase": "Bound",
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "capacity": {"storage": "5Gi"},
        }


@pytest.mark.looptime
async def test_a_claim_of_a_class_that_does_not_exist_waits_for_it(
    cluster: Cluster,
) -> None:
    """An event says so."""
    async with cluster.nodes():
        await create_claim(cluster, storageClassName="fast")
        message = 'storageclass.storage.k8s.io "fast" not found'
        assert await events(cluster) == [f"data Warning ProvisioningFailed: {message}"]
        body = {"metadata": {"name": "fast"}, "provisioner": "devcluster"}
        path = "/apis/storage.k8s.io/v1/storageclasses"
        await send(cluster, "POST", path, body)
        await asyncio.sleep(0.1)
        assert (await claim_of(cluster))["status"]["phase"] == "Bound"


@pytest.mark.looptime
async def test_a_class_with_another_provisioner_is_left_to_it(
    cluster: Cluster,
) -> None:
    """An event names it."""
    body = {"metadata": {"name": "disks"}, "provisioner": "example.com/disks"}
    async with cluster.nodes():
        await send(cluster, "POST", "/apis/storage.k8s.io/v1/storageclasses", body)
        await create_claim(cluster, storageClassName="disks")
        (event,) = await events(cluster)
        assert event.startswith(
            "data Normal ExternalProvisioning: Waiting for a volume to be created "
            "either by the external provisioner 'example.com/disks'"
        )
        assert await volumes(cluster) == {}
