"""Groups of pods share claims, if the gate is enabled, on a cluster in memory."""

import asyncio
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import msgspec
import pytest

from controller_manager.api.dynamicresources.v1 import RESOURCE_CLAIMS, ResourceClaim
from controller_manager.api.json_objects import JSON
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.resource.resourceclaim.consumers import (
    of_group,
    pod_claim_name,
)
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster
from tests.controllers.resource.resourceclaim.objects import (
    ALLOCATION,
    CONFIG,
    add_claim,
    add_pod,
    add_template,
    claims,
    direct,
    events,
    from_template,
    remove,
    requests,
    status_names,
)
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime

ENABLED: Final = replace(
    CONFIG, features=FeatureGates({"DRAWorkloadResourceClaims": True})
)
GROUPS_OF_PODS: Final = FeatureGates(
    {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
)
GROUP: Final = {"schedulingGroup": {"podGroupName": "g"}}


def add_group(cluster: Cluster, *entries: JSON) -> None:
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": [*entries]}
    cluster.add("PodGroup", "g", "scheduling.k8s.io/v1alpha2", spec=spec)


async def group_names(cluster: Cluster) -> dict[str, str | None]:
    group = await cluster.client.get(POD_GROUPS, "default", "g")
    return dict(of_group(group).status_names)


async def allocate(cluster: Cluster, name: str) -> None:
    patch: dict[str, Any] = {"status": {"allocation": ALLOCATION}}
    where = (RESOURCE_CLAIMS, "default", name)
    await cluster.client.patch(*where, patch, PatchType.MERGE, "status")


def consumers(claim: ResourceClaim) -> list[tuple[str, str, str]]:
    found = claim.status.reserved_for or ()
    return [(each.api_group, each.resource, each.name) for each in found]


async def test_the_pods_of_a_group_share_a_claim() -> None:
    cluster = Cluster(rbac=True, features=GROUPS_OF_PODS)
    async with cluster.confined_manager(ENABLED) as recording:
        add_template(cluster)
        add_template(cluster, "own")
        for name in ("p", "q"):
            own = from_template("own", "own")
            add_pod(cluster, name, from_template(), own, **GROUP)
        await asyncio.sleep(60)
        assert await claims(cluster) == {}
        add_group(cluster, from_template())
        await asyncio.sleep(1)
        made = await claims(cluster)
        shared = (await group_names(cluster))["gpu"]
        names = [await status_names(cluster, each) for each in ("p", "q")]
    assert shared is not None
    assert shared.startswith("g-gpu-")
    (owner,) = made[shared].metadata.owner_references or ()
    assert (owner.api_version, owner.kind, owner.name) == (
        "scheduling.k8s.io/v1alpha2",
        "PodGroup",
        "g",
    )
    assert [each["gpu"] for each in names] == [shared, shared]
    assert {str(each["own"]).rpartition("-")[0] for each in names} == {"p-own", "q-own"}
    assert {pod_claim_name(each) for each in made.values()} == {"gpu", "own"}
    assert ("PATCH", "podgroups/g/status", 200) in requests(recording.writes)


async def test_a_shared_claim_is_reserved_for_the_group_until_it_is_gone() -> None:
    cluster = Cluster(features=GROUPS_OF_PODS)
    add_template(cluster)
    add_claim(cluster)
    add_group(cluster, from_template(), direct())
    async with cluster.manager(ENABLED) as recording:
        add_pod(cluster, "p", from_template(), direct(), nodeName="n", **GROUP)
        await asyncio.sleep(1)
        shared = str((await group_names(cluster))["gpu"])
        await allocate(cluster, shared)
        await asyncio.sleep(1)
        found = await claims(cluster)
        group = ("scheduling.k8s.io", "podgroups", "g")
        assert [consumers(each) for each in found.values()] == [[group], [group]]
        await remove(cluster, "p")
        await asyncio.sleep(60)
        assert consumers((await claims(cluster))["c"]) == [group]
        del recording.writes[:]
        patch = {"metadata": {"finalizers": None}}
        await cluster.client.patch(POD_GROUPS, "default", "g", patch, PatchType.MERGE)
        await cluster.client.delete(POD_GROUPS, "default", "g")
        await asyncio.sleep(1)
        claim = (await claims(cluster))["c"]
    assert consumers(claim) == []
    assert claim.status.allocation is None


async def test_the_claim_of_a_group_that_is_newer_than_the_cache_stays() -> None:
    """The cache may show an older group of the same name, after a change of leaders."""
    cluster = Cluster()
    add_group(cluster)
    body = {"metadata": {"name": "g", "namespace": "default", "uid": "newer"}}
    is_newer = True

    async def answer(request: Request) -> Response | None:
        if request.method == "GET" and request.path.endswith("/podgroups/g"):
            found = body if is_newer else {**body, "metadata": {"uid": "newest"}}
            return Response(HTTPStatus.OK, {}, msgspec.json.encode(found))
        return None

    add_claim(cluster, is_allocated=False)
    owner = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "name": "g",
        "uid": "newer",
        "controller": True,
    }
    patch = {"metadata": {"ownerReferences": [owner]}}
    where = (RESOURCE_CLAIMS, "default", "c")
    await cluster.client.patch(*where, patch, PatchType.MERGE)
    transport = Meddler(cluster.transport, answer)
    async with cluster.manager(ENABLED, transport) as recording:
        await asyncio.sleep(10)
        assert requests(recording.writes) == []
        is_newer = False
        await cluster.client.patch(*where, {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(10)
        assert requests(recording.writes) == [("DELETE", "resourceclaims/c", 200)]


async def test_without_the_gate_a_group_does_not_matter() -> None:
    """A claim that is reserved for a group stays so; its pods have their own claims."""
    cluster = Cluster(features=GROUPS_OF_PODS)
    add_template(cluster)
    add_group(cluster, from_template())
    reference = {
        "apiGroup": "scheduling.k8s.io",
        "resource": "podgroups",
        "name": "gone",
        "uid": "1",
    }
    add_claim(cluster, "c", reference)
    async with cluster.manager(CONFIG):
        add_pod(cluster, "p", from_template(), **GROUP)
        await asyncio.sleep(1)
        found = await claims(cluster)
    assert consumers(found["c"]) == [("scheduling.k8s.io", "podgroups", "gone")]
    assert [each.rpartition("-")[0] for each in found if each != "c"] == ["p-gpu"]


async def test_a_group_waits_for_its_template_and_an_event_reports_it() -> None:
    cluster = Cluster(features=GROUPS_OF_PODS)
    add_group(cluster, from_template())
    async with cluster.manager(ENABLED):
        await asyncio.sleep(60)
        add_template(cluster)
        await asyncio.sleep(0.1)
        assert len(await claims(cluster)) == 1
        (found,) = {each[:4] for each in await events(cluster)}
    assert found == (
        "PodGroup/g",
        "Warning",
        "FailedResourceClaimCreation",
        "resource_claim",
    )


async def test_a_deleted_claim_of_a_group_is_created_again() -> None:
    cluster = Cluster(features=GROUPS_OF_PODS)
    add_template(cluster)
    add_group(cluster, from_template())
    async with cluster.manager(ENABLED):
        add_pod(cluster, "p", from_template(), **GROUP)
        await asyncio.sleep(1)
        before = str((await group_names(cluster))["gpu"])
        await cluster.client.delete(RESOURCE_CLAIMS, "default", before)
        await asyncio.sleep(1)
        (after,) = await claims(cluster)
        assert await group_names(cluster) == {"gpu": after}
        assert await status_names(cluster) == {"gpu": after}
    assert after != before
