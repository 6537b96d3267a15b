"""Pods of custom resources, whose scale is a subresource."""

import asyncio

import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.transport import Request
from tests.clusters import Cluster
from tests.controllers.apps.disruption.fixtures import (
    Guard,
    config,
    counted_syncs,
    reference,
    running,
)
from tests.controllers.apps.replicaset.test_surplus import Lossy
from tests.controllers.custom_resources import (
    DEFINITIONS,
    SCALABLE,
    WIDGETS,
    definition,
)
from tests.controllers.user import settle
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime


_FAILED = "CalculateExpectedPodCountFailed"
NO_SCALE = "widgets.example.com does not implement the scale subresource"


def widget(size: int) -> JSON:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": size},
    }


async def test_the_scale_of_a_custom_resource_counts(cluster: Cluster) -> None:
    """It is found by discovery and read through its scale subresource."""
    async with running(cluster) as (guard, _):
        await guard.create(DEFINITIONS, definition(subresources=SCALABLE))
        made = await guard.create(WIDGETS, widget(5))
        owner = reference(WIDGETS, "w", made["metadata"]["uid"])
        await guard.add_pods("a", "b", owner=owner)
        await guard.guard(maxUnavailable="50%")
        assert await guard.numbers() == (5, 2, 2, 0)
        await guard.patch(WIDGETS, "w", {"spec": {"size": 2}})
        await guard.add_pods("c", owner=owner)
        assert await guard.numbers() == (2, 1, 3, 2)


async def test_an_owner_may_be_named_by_a_version_of_long_ago(
    cluster: Cluster,
) -> None:
    """Upstream finds no scale if that version is not served any more."""
    async with running(cluster) as (guard, _):
        await guard.create(DEFINITIONS, definition(subresources=SCALABLE))
        made = await guard.create(WIDGETS, widget(4))
        owner = reference(WIDGETS, "w", made["metadata"]["uid"])
        former = {**owner, "apiVersion": "example.com/v1alpha1"}
        await guard.add_pods("a", "b", owner=former)
        await guard.guard(maxUnavailable=3)
        assert await guard.numbers() == (4, 1, 2, 1)


async def test_a_kind_that_is_defined_later_is_counted_then(cluster: Cluster) -> None:
    """Upstream looks again only when a pod or the budget changes."""
    owner = reference(WIDGETS, "w", "u")
    async with running(cluster) as (guard, _):
        await guard.add_pods("a", owner=owner)
        await guard.guard(maxUnavailable=1)
        message = 'no matches for kind "Widget" in version "example.com/v1"'
        assert await guard.reason() == ("False", "SyncFailed", message)
        await guard.create(DEFINITIONS, definition(subresources=SCALABLE))
        made = await guard.create(WIDGETS, widget(3))
        uid = made["metadata"]["uid"]
        owners = [{**reference(WIDGETS, "w", uid), "controller": True}]
        await settle(60)
        message = 'found no controllers for pod "a"'
        assert await guard.reason() == ("False", "SyncFailed", message)
        await guard.patch(PODS, "a", {"metadata": {"ownerReferences": owners}})
        await settle(1)
        assert await guard.numbers() == (3, 2, 1, 0)
        assert await guard.reason() == ("False", "InsufficientPods", "")


async def test_a_kind_that_gets_a_scale_later_is_counted_then(cluster: Cluster) -> None:
    """Within five minutes; upstream waits for a change of a pod or of the budget."""
    async with running(cluster) as (guard, recording):
        await guard.create(DEFINITIONS, definition())
        made = await guard.create(WIDGETS, widget(1))
        owner = reference(WIDGETS, "w", made["metadata"]["uid"])
        await guard.add_pods("a", owner=owner)
        await guard.guard(maxUnavailable=1)
        assert await guard.reason() == ("False", "SyncFailed", NO_SCALE)
        version = definition(subresources=SCALABLE)["spec"]["versions"]
        await guard.client.patch(
            DEFINITIONS,
            "",
            "widgets.example.com",
            {"spec": {"versions": version}},
            PatchType.MERGE,
        )
        await settle(301)
        assert await guard.numbers() == (1, 0, 1, 1)
    assert [each.status for each in recording.writes] == [200, 200]


async def test_a_budget_that_stays_uncountable_is_written_once(
    cluster: Cluster,
) -> None:
    """It is looked at every five minutes; upstream writes the same at each change."""
    async with running(cluster) as (guard, recording):
        await guard.create(DEFINITIONS, definition())
        made = await guard.create(WIDGETS, widget(1))
        owner = reference(WIDGETS, "w", made["metadata"]["uid"])
        await guard.add_pods("a", owner=owner)
        await guard.guard(maxUnavailable=1)
        with counted_syncs() as syncs:
            await settle(3000)
        assert len(syncs) == 10
        events = await guard.told(_FAILED)
        counts = [e.count for e in await guard.events(_FAILED)]
    assert (len(recording.writes), counts) == (1, [1])
    message = f"Failed to calculate the number of expected pods: {NO_SCALE}"
    assert events == [("pdb", "Warning", "controllermanager", message)]


async def test_a_scale_that_cannot_be_read_is_read_again(cluster: Cluster) -> None:
    """Until then the budget allows nothing; upstream waits for a change."""
    lossy = Lossy(cluster.transport)
    async with running(cluster, lossy) as (guard, _):
        await guard.create(DEFINITIONS, definition(subresources=SCALABLE))
        made = await guard.create(WIDGETS, widget(2))
        owner = reference(WIDGETS, "w", made["metadata"]["uid"])
        await guard.add_pods("a", "b", owner=owner)
        lossy.lose = lambda request: "500" if request.path.endswith("/scale") else ""
        await guard.guard(maxUnavailable=1)
        assert await guard.reason() == ("False", "SyncFailed", "etcd timed out")
        lossy.lose = lambda _: ""
        await settle(30)
        assert await guard.numbers() == (2, 1, 2, 1)


async def test_a_scale_that_is_not_answered_delays_no_other_budget(
    cluster: Cluster,
) -> None:
    """Such as that of a resource whose conversion webhook hangs."""
    meddler = Meddler(cluster.transport)

    async def hang(request: Request) -> None:
        if request.path.endswith("/scale"):
            await asyncio.sleep(30)

    async with running(cluster, meddler) as (guard, _):
        await guard.create(DEFINITIONS, definition(subresources=SCALABLE))
        made = await guard.create(WIDGETS, widget(2))
        owner = reference(WIDGETS, "w", made["metadata"]["uid"])
        await guard.add_pods("a", owner=owner)
        meddler.meddle = hang
        for name in ("slow", "slower"):
            await guard.guard(name, maxUnavailable=1)
        await guard.guard("quick", minAvailable=1)
        assert await guard.numbers("quick") == (1, 1, 1, 0)
        assert (await guard.status("slow")).observed_generation == 0
        meddler.meddle = None
        await settle(120)
        assert await guard.numbers("slow") == (2, 1, 1, 0)


async def test_the_role_allows_to_read_every_scale() -> None:
    """As the account of the controller, with the permissions of its role only."""
    cluster = Cluster(rbac=True)
    confined = config(use_service_account_credentials=True)
    async with cluster.confined_manager(confined):
        guard = Guard(cluster)
        await guard.create(DEFINITIONS, definition(subresources=SCALABLE))
        made = await guard.create(WIDGETS, widget(5))
        owner = reference(WIDGETS, "w", made["metadata"]["uid"])
        await guard.add_pods("a", "b", owner=owner)
        await guard.guard(maxUnavailable=4)
        assert await guard.numbers() == (5, 1, 2, 1)
