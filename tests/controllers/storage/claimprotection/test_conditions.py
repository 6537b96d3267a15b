"""A claim says since when no pod uses it, if the gate is enabled."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from controller_manager.api.core.claims import CLAIMS, ClaimCondition
from controller_manager.api.core.v1 import (
    PODS,
    EphemeralVolumeSource,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodMeta,
    PodSpec,
    PodStatus,
    PodVolume,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import OwnerReference, PartialMetadata, PartialObject
from controller_manager.api.scalars import format_time
from controller_manager.client.rest.client import DeleteOptions, PatchType
from controller_manager.control.pod_indexes import PODS_BY_CLAIM, claim_names
from controller_manager.controllers.storage.claimprotection import UNUSED_SINCE
from controller_manager.controllers.storage.claimprotection.controller import FINALIZER
from controller_manager.controllers.storage.claimprotection.pods import uses
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster
from tests.controllers.storage.claimprotection.test_on_cluster import (
    CONFIG,
    Lists,
    Unseen,
    add_claim,
    add_pod,
    delete_claim,
    delete_pod,
    strip,
)

FEATURES = FeatureGates({UNUSED_SINCE.name: True})
TRACKING = replace(CONFIG, features=FEATURES)


async def bind(cluster: Cluster, phase: str = "Bound") -> None:
    """Set the phase of the claim, with a condition of another controller."""
    resizing = {"type": "Resizing", "status": "True"}
    status = {"phase": phase, "conditions": [resizing]}
    await cluster.client.patch(
        CLAIMS, "default", "data", {"status": status}, subresource="status"
    )


async def patch_status(cluster: Cluster, name: str, status: JSON) -> None:
    """Change the status of a pod."""
    patch = {"status": status}
    await cluster.client.patch(PODS, "default", name, patch, subresource="status")


async def conditions(cluster: Cluster) -> dict[str, ClaimCondition]:
    """Return the conditions of the claim after a second."""
    await asyncio.sleep(1)
    claim = await cluster.client.get(CLAIMS, "default", "data")
    return {each.type: each for each in claim.status.conditions or ()}


def condition(cluster: Cluster, ago: float, **fields: Any) -> ClaimCondition:
    """Return the condition Unused that began some seconds ago."""
    since = format_time(cluster.clock.now() - timedelta(seconds=ago))
    return ClaimCondition(type="Unused", last_transition_time=since, **fields)


USED = {
    "status": "False",
    "reason": "PodUsingPVC",
    "message": "A pod is currently referencing this PVC",
}
IDLE = {
    "status": "True",
    "reason": "NoPodsUsingPVC",
    "message": "No pods are currently referencing this PVC",
}


@pytest.mark.looptime
async def test_a_claim_is_unused_when_its_last_pod_has_ended() -> None:
    """A pod without a node uses it. The role with the gate is enough."""
    cluster = Cluster(rbac=True, features=FEATURES)
    add_claim(cluster)
    await bind(cluster)
    async with cluster.confined_manager(TRACKING) as recording:
        before = await conditions(cluster)
        assert before["Unused"] == condition(cluster, 1, **IDLE)
        assert before["Resizing"].status == "True"
        add_pod(cluster, "one")
        add_pod(cluster, "two", nodeName="n")
        assert (await conditions(cluster))["Unused"] == condition(cluster, 1, **USED)
        await patch_status(cluster, "two", {"phase": "Succeeded"})
        assert (await conditions(cluster))["Unused"] == condition(cluster, 2, **USED)
        await delete_pod(cluster, "one")
        assert (await conditions(cluster))["Unused"] == condition(cluster, 1, **IDLE)
        await delete_pod(cluster, "two")
        assert (await conditions(cluster))["Unused"] == condition(cluster, 2, **IDLE)
    writes = [(each.method, each.path, each.status) for each in recording.writes]
    path = "/api/v1/namespaces/default/persistentvolumeclaims/data/status"
    assert writes == [("PUT", path, 200)] * 3


@pytest.mark.looptime
@pytest.mark.parametrize("phase", ["Pending", "Bound", "Lost"])
async def test_a_claim_has_the_condition_in_every_phase(
    cluster: Cluster, phase: str
) -> None:
    """A claim that waits for its first pod is unused, too."""
    add_claim(cluster)
    await bind(cluster, phase)
    async with cluster.manager(TRACKING):
        assert (await conditions(cluster))["Unused"] == condition(cluster, 1, **IDLE)
        add_pod(cluster)
        assert (await conditions(cluster))["Unused"] == condition(cluster, 1, **USED)


RUNNING: Final[JSON] = {"state": {"running": {}}}
ENDED: Final[JSON] = {"state": {"terminated": {"exitCode": 0}}}
WAITING: Final[JSON] = {"state": {"waiting": {"reason": "PodInitializing"}}}


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("statuses", "is_used"),
    [
        ({}, False),
        ({"containerStatuses": [ENDED, WAITING]}, False),
        ({"containerStatuses": [ENDED, RUNNING]}, True),
        ({"containerStatuses": [WAITING], "initContainerStatuses": [RUNNING]}, True),
        ({"containerStatuses": [ENDED], "initContainerStatuses": [ENDED]}, False),
        (
            {"containerStatuses": [ENDED], "ephemeralContainerStatuses": [RUNNING]},
            True,
        ),
    ],
)
async def test_a_deleted_pod_uses_a_claim_while_a_container_runs(
    cluster: Cluster, statuses: JSON, *, is_used: bool
) -> None:
    """It may wait for a finalizer after that."""
    add_claim(cluster)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    kind = cluster.server.catalogue.of("v1", "Pod")
    assert kind is not None
    pod = {
        "metadata": {"name": "web", "finalizers": ["example.com/hold"]},
        "spec": {
            "containers": [{"name": "c", "image": "app:v1"}],
            "nodeName": "n",
            "volumes": [volume],
        },
    }
    cluster.server.objects.create(kind, "default", pod)
    running = {"containerStatuses": [RUNNING]}
    async with cluster.manager(TRACKING):
        await patch_status(cluster, "web", running)
        assert (await conditions(cluster))["Unused"].status == "False"
        await cluster.client.delete(PODS, "default", "web")
        assert (await conditions(cluster))["Unused"].status == "False"
        await patch_status(cluster, "web", {"containerStatuses": [], **statuses})
        found = (await conditions(cluster))["Unused"]
        assert found.status == ("False" if is_used else "True")


@pytest.mark.looptime
@pytest.mark.parametrize(("owned", "status"), [(True, "False"), (False, "True")])
async def test_a_pod_uses_a_claim_of_an_ephemeral_volume_that_it_owns(
    cluster: Cluster, status: str, *, owned: bool
) -> None:
    """A claim of the same name may have been there before."""
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    add_pod(cluster, volumes=[scratch])
    pod = await cluster.client.get(PODS, "default", "web")
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "web",
        "uid": pod.metadata.uid if owned else "another",
        "controller": True,
    }
    add_claim(cluster, "web-scratch", ownerReferences=[owner])
    async with cluster.manager(TRACKING):
        await asyncio.sleep(1)
        claim = await cluster.client.get(CLAIMS, "default", "web-scratch")
    assert [each.status for each in claim.status.conditions or ()] == [status]


@pytest.mark.looptime
async def test_a_pod_that_the_cache_does_not_show_uses_its_claim(
    cluster: Cluster,
) -> None:
    """The pods are listed before a claim is marked as unused."""
    add_claim(cluster)
    async with cluster.manager(TRACKING, Unseen(cluster)) as recording:
        assert (await conditions(cluster))["Unused"] == condition(cluster, 1, **USED)
        await delete_pod(cluster)
        assert (await conditions(cluster))["Unused"] == condition(cluster, 1, **IDLE)
    assert len(recording.writes) == 2


@pytest.mark.looptime
async def test_claims_that_are_unused_together_share_a_list(cluster: Cluster) -> None:
    """And a claim that is marked already takes none."""
    names = [f"data-{number}" for number in range(50)]
    for name in (*names, "data"):
        add_claim(cluster, name)
    add_pod(cluster)
    transport = Lists(cluster)
    async with cluster.manager(TRACKING, transport) as recording:
        assert (await conditions(cluster))["Unused"].status == "False"
        assert (transport.count, len(recording.writes)) == (1, 51)
        patch = {"metadata": {"labels": {"a": "b"}}}
        for name in (*names, "data"):
            await cluster.client.patch(CLAIMS, "default", name, patch, PatchType.MERGE)
        await asyncio.sleep(1)
        assert (transport.count, len(recording.writes)) == (1, 51)
        await delete_pod(cluster)
        assert (await conditions(cluster))["Unused"].status == "True"
    assert (transport.count, len(recording.writes)) == (2, 52)


@pytest.mark.looptime
async def test_a_used_claim_keeps_a_condition_that_is_not_true(
    cluster: Cluster,
) -> None:
    """Upstream writes only a condition that says that the claim is unused."""
    add_claim(cluster)
    add_pod(cluster)
    other = {"type": "Unused", "status": "Unknown"}
    status = {"status": {"conditions": [other]}}
    await cluster.client.patch(CLAIMS, "default", "data", status, subresource="status")
    async with cluster.manager(TRACKING) as recording:
        assert (await conditions(cluster))["Unused"].status == "Unknown"
        assert recording.writes == []
        await delete_pod(cluster)
        assert (await conditions(cluster))["Unused"] == condition(cluster, 1, **IDLE)


@pytest.mark.looptime
async def test_a_claim_gets_its_condition_before_its_finalizer(
    cluster: Cluster,
) -> None:
    """In upstream's order."""
    add_claim(cluster)
    await strip(cluster)
    async with cluster.manager(TRACKING) as recording:
        assert (await conditions(cluster))["Unused"].status == "True"
    path = "/api/v1/namespaces/default/persistentvolumeclaims/data"
    writes = [(each.path, each.status) for each in recording.writes]
    assert writes == [(f"{path}/status", 200), (path, 200)]
    claim = await cluster.client.get(CLAIMS, "default", "data")
    assert claim.metadata.finalizers == (FINALIZER,)


@pytest.mark.looptime
async def test_a_claim_that_is_deleted_keeps_its_condition(cluster: Cluster) -> None:
    """Its finalizer is removed when its pod is gone."""
    add_claim(cluster, finalizers=["example.com/hold"])
    await bind(cluster)
    add_pod(cluster, nodeName="n")
    async with cluster.manager(TRACKING):
        used = await conditions(cluster)
        await delete_claim(cluster)
        await delete_pod(cluster)
        assert await conditions(cluster) == used
        claim = await cluster.client.get(CLAIMS, "default", "data")
    assert claim.metadata.finalizers == ("example.com/hold",)


@pytest.mark.looptime
async def test_without_its_gate_a_condition_stays_as_it_is(cluster: Cluster) -> None:
    """It may be wrong by now, as upstream's."""
    add_claim(cluster)
    await bind(cluster)
    async with cluster.manager(TRACKING):
        unused = await conditions(cluster)
    async with cluster.manager(CONFIG):
        add_pod(cluster)
        assert await conditions(cluster) == unused
        await cluster.client.delete(PODS, "default", "web", DeleteOptions())


DELETED = "2026-01-01T00:00:00Z"
DATA = PodVolume(
    name="data",
    persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="claim"),
)
SCRATCH = PodVolume(name="scratch", ephemeral=EphemeralVolumeSource())
OTHER = PodVolume(name="config")


def pod(*volumes: PodVolume, node: str = "n", phase: str = "", **metadata: Any) -> Pod:
    """Return a pod "web" with these volumes."""
    return Pod(
        metadata=PodMeta(name="web", namespace="ns", uid="pod", **metadata),
        spec=PodSpec(node_name=node, volumes=volumes or None),
        status=PodStatus(phase=phase),
    )


def claim(name: str = "claim", owner: str = "", **metadata: Any) -> PartialObject:
    """Return a claim, controlled by the owner of that uid if there is one."""
    owners = (OwnerReference(uid=owner, controller=True),) if owner else None
    return PartialObject(
        metadata=PartialMetadata(
            name=name, namespace="ns", owner_references=owners, **metadata
        )
    )


@pytest.mark.parametrize(
    ("user", "used", "is_used"),
    [
        (pod(), claim(), False),
        (pod(OTHER, DATA), claim(), True),
        (pod(OTHER, DATA), claim("other"), False),
        (pod(DATA, node=""), claim(), False),
        (pod(DATA, phase="Succeeded"), claim(), True),
        (pod(DATA, deletion_timestamp=DELETED), claim(), True),
        (
            pod(DATA, deletion_timestamp=DELETED, deletion_grace_period_seconds=0),
            claim(),
            True,
        ),
        (
            pod(DATA, deletion_timestamp=DELETED, deletion_grace_period_seconds=0),
            claim(owner="pod"),
            False,
        ),
        (pod(DATA, deletion_timestamp=DELETED), claim(owner="pod"), True),
        (pod(SCRATCH), claim("web-scratch", "pod"), True),
        (pod(SCRATCH), claim("web-scratch", "other"), False),
        (pod(SCRATCH), claim("web-scratch"), False),
        (pod(SCRATCH, node=""), claim("web-scratch", "pod"), False),
        (
            pod(SCRATCH, deletion_timestamp=DELETED, deletion_grace_period_seconds=30),
            claim("web-scratch", "pod"),
            True,
        ),
        (
            pod(SCRATCH, deletion_timestamp=DELETED, deletion_grace_period_seconds=0),
            claim("web-scratch", "pod"),
            False,
        ),
    ],
)
def test_a_pod_uses_a_claim(user: Pod, used: PartialObject, *, is_used: bool) -> None:
    """It must have a node, and own the claim of an ephemeral volume."""
    assert uses(user, used) is is_used


def test_a_pod_names_its_claims_also_if_it_does_not_use_them() -> None:
    """The claim of an ephemeral volume is named after the pod and the volume."""
    user = pod(DATA, OTHER, SCRATCH, node="")
    assert list(claim_names(user)) == ["claim", "web-scratch"]
    assert list(PODS_BY_CLAIM.function(user)) == ["ns/claim", "ns/web-scratch"]
