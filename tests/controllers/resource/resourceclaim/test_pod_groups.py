"""Groups of pods share claims, if the gate is enabled, on a cluster in memory."""

import asyncio
from dataclasses import replace
from typing import Final

import msgspec
import pytest

from controller_manager.api.dynamicresources.v1 import RESOURCE_CLAIMS, ResourceClaim
from controller_manager.api.json_objects import JSON
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS, PodGroup
from controller_manager.client.rest.transport import Response
from controller_manager.controllers.resource.resourceclaim.consumers import (
    of_group,
    pod_claim_name,
)
from controller_manager.options.gates import FeatureGates
from tests.controllers.hands import Before

from .objects import ALLOCATION, CONFIG, Claims, direct, from_template, requests

pytestmark = pytest.mark.looptime

ENABLED: Final = replace(
    CONFIG, features=FeatureGates({"DRAWorkloadResourceClaims": True})
)
GROUPS_OF_PODS: Final = FeatureGates(
    {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
)
GROUP: Final = {"schedulingGroup": {"podGroupName": "g"}}


def add_group(cluster: Claims, *entries: JSON) -> None:
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": [*entries]}
    cluster.put(POD_GROUPS, "g", spec=spec)


def group_names(cluster: Claims) -> dict[str, str | None]:
    found = msgspec.json.encode(cluster.stored(POD_GROUPS, "g"))
    return dict(of_group(msgspec.json.decode(found, type=PodGroup)).status_names)


def consumers(claim: ResourceClaim) -> list[tuple[str, str, str]]:
    found = claim.status.reserved_for or ()
    return [(each.api_group, each.resource, each.name) for each in found]


async def test_the_pods_of_a_group_share_a_claim() -> None:
    cluster = Claims(rbac=True, features=GROUPS_OF_PODS)
    async with cluster.confined_manager(ENABLED) as recording:
        cluster.add_template()
        cluster.add_template("own")
        for name in ("p", "q"):
            own = from_template("own", "own")
            cluster.add_pod(name, from_template(), own, **GROUP)
        await asyncio.sleep(60)
        assert cluster.claims() == {}
        add_group(cluster, from_template())
        await asyncio.sleep(1)
        made = cluster.claims()
        shared = group_names(cluster)["gpu"]
        names = [cluster.status_names(each) for each in ("p", "q")]
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
    cluster = Claims(features=GROUPS_OF_PODS)
    cluster.add_template()
    cluster.add_claim()
    add_group(cluster, from_template(), direct())
    async with cluster.manager(ENABLED) as recording:
        cluster.add_pod("p", from_template(), direct(), nodeName="n", **GROUP)
        await asyncio.sleep(1)
        shared = str(group_names(cluster)["gpu"])
        cluster.edit(RESOURCE_CLAIMS, shared, status={"allocation": ALLOCATION})
        await asyncio.sleep(1)
        found = cluster.claims()
        group = ("scheduling.k8s.io", "podgroups", "g")
        assert [consumers(each) for each in found.values()] == [[group], [group]]
        cluster.leave("p")
        await asyncio.sleep(60)
        assert consumers(cluster.claims()["c"]) == [group]
        del recording.writes[:]
        cluster.edit(POD_GROUPS, "g", metadata={"finalizers": None})
        cluster.remove(POD_GROUPS, "g")
        await asyncio.sleep(1)
        claim = cluster.claims()["c"]
    assert consumers(claim) == []
    assert claim.status.allocation is None


async def test_a_group_newer_than_the_cache_keeps_its_claim(cluster: Claims) -> None:
    """The cache may show an older group of the same name, after a change of leaders."""
    add_group(cluster)
    uids = ["newer"]

    def answer() -> Response:
        metadata = {"name": "g", "namespace": "default", "uid": uids[-1]}
        return Response(200, {}, msgspec.json.encode({"metadata": metadata}))

    cluster.add_claim(is_allocated=False)
    owner = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "name": "g",
        "uid": "newer",
        "controller": True,
    }
    cluster.edit(RESOURCE_CLAIMS, "c", metadata={"ownerReferences": [owner]})
    transport = Before(cluster, "GET", "/podgroups/g", answer, times=99)
    async with cluster.manager(ENABLED, transport) as recording:
        await asyncio.sleep(10)
        assert requests(recording.writes) == []
        uids.append("newest")
        cluster.edit(RESOURCE_CLAIMS, "c", metadata={"labels": {"a": "b"}})
        await asyncio.sleep(10)
        assert requests(recording.writes) == [("DELETE", "resourceclaims/c", 200)]


async def test_without_the_gate_a_group_does_not_matter() -> None:
    """A claim that is reserved for a group stays so; its pods have their own claims."""
    cluster = Claims(features=GROUPS_OF_PODS)
    cluster.add_template()
    add_group(cluster, from_template())
    reference = {
        "apiGroup": "scheduling.k8s.io",
        "resource": "podgroups",
        "name": "gone",
        "uid": "1",
    }
    cluster.add_claim("c", reference)
    async with cluster.manager(CONFIG):
        cluster.add_pod("p", from_template(), **GROUP)
        await asyncio.sleep(1)
        found = cluster.claims()
    assert consumers(found["c"]) == [("scheduling.k8s.io", "podgroups", "gone")]
    assert [each.rpartition("-")[0] for each in found if each != "c"] == ["p-gpu"]


async def test_a_group_waits_for_its_template_and_an_event_reports_it() -> None:
    cluster = Claims(features=GROUPS_OF_PODS)
    add_group(cluster, from_template())
    async with cluster.manager(ENABLED):
        await asyncio.sleep(60)
        cluster.add_template()
        await asyncio.sleep(0.1)
        assert len(cluster.claims()) == 1
    (told,) = cluster.told()
    assert told.startswith("g Warning FailedResourceClaimCreation [resource_claim]: ")


async def test_a_deleted_claim_of_a_group_is_created_again() -> None:
    cluster = Claims(features=GROUPS_OF_PODS)
    cluster.add_template()
    add_group(cluster, from_template())
    async with cluster.manager(ENABLED):
        cluster.add_pod("p", from_template(), **GROUP)
        await asyncio.sleep(1)
        before = str(group_names(cluster)["gpu"])
        cluster.delete_claim(before)
        await asyncio.sleep(1)
        (after,) = cluster.claims()
        assert group_names(cluster) == {"gpu": after}
        assert cluster.status_names() == {"gpu": after}
    assert after != before
