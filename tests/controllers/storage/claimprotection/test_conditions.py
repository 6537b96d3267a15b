"""A claim says since when no pod uses it, if the gate is enabled."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controller_manager.api.core.claims import CLAIMS, ClaimCondition
from controller_manager.api.core.v1 import PODS
from controller_manager.api.times import format_time
from controller_manager.client.client import DeleteOptions
from controller_manager.controllers.storage.claimprotection.options import UNUSED_SINCE
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster
from tests.controllers.storage.claimprotection.test_on_cluster import (
    CONFIG,
    add_claim,
    add_pod,
    delete_claim,
    delete_pod,
)

pytestmark = pytest.mark.looptime

FEATURES = FeatureGates({UNUSED_SINCE.name: True})
TRACKING = replace(CONFIG, features=FEATURES)


async def bind(cluster: Cluster, phase: str = "Bound") -> None:
    """Set the phase of the claim, with a condition of another controller."""
    resizing = {"type": "Resizing", "status": "True"}
    status = {"phase": phase, "conditions": [resizing]}
    await cluster.client.patch(
        CLAIMS, "default", "data", {"status": status}, subresource="status"
    )


async def end(cluster: Cluster, name: str, phase: str) -> None:
    """Set the phase of a pod."""
    patch = {"status": {"phase": phase}}
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
        await end(cluster, "two", "Succeeded")
        assert (await conditions(cluster))["Unused"] == condition(cluster, 2, **USED)
        await delete_pod(cluster, "one")
        assert (await conditions(cluster))["Unused"] == condition(cluster, 1, **IDLE)
        await delete_pod(cluster, "two")
        assert (await conditions(cluster))["Unused"] == condition(cluster, 2, **IDLE)
    writes = [(each.method, each.path, each.status) for each in recording.writes]
    path = "/api/v1/namespaces/default/persistentvolumeclaims/data/status"
    assert writes == [("PUT", path, 200)] * 3


@pytest.mark.parametrize("phase", ["Pending", "Lost"])
async def test_a_claim_that_is_not_bound_has_no_condition_unused(
    cluster: Cluster, phase: str
) -> None:
    """There is no volume that could be unused."""
    add_claim(cluster)
    await bind(cluster, phase)
    async with cluster.manager(TRACKING):
        assert "Unused" not in await conditions(cluster)


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
