"""The scales of the owners of pods, in the situations of upstream's tests."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from controller_manager.api.apps.v1 import REPLICASETS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.transport import Request, Transport
from tests.clusters import Cluster, RecordingTransport
from tests.controllers.apps.disruption.builders import (
    Guard,
    counted_syncs,
    reference,
    running,
)
from tests.controllers.custom_resources import (
    DEFINITIONS,
    SCALABLE,
    WIDGETS,
    definition,
)
from tests.controllers.user import settle
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime


async def test_an_adopted_replica_set_counts_no_more_itself(cluster: Cluster) -> None:
    """Its own scale changes in each rollout; that causes no sync then."""
    async with running(cluster) as (guard, _):
        await guard.add_pods("a", "b", owner=await guard.own("web", 2))
        await guard.guard(maxUnavailable=1)
        assert await guard.numbers() == (2, 1, 2, 1)
        await guard.patch(REPLICASETS, "web", {"metadata": await guard.deploy(3)})
        await settle(1)
        assert await guard.numbers() == (3, 2, 2, 0)
        with counted_syncs() as syncs:
            await guard.patch(REPLICASETS, "web", {"spec": {"replicas": 1}})
            await settle(1)
        assert syncs == []


FAILED = "CalculateExpectedPodCountFailed"
NO_SCALE = "widgets.example.com does not implement the scale subresource"


async def widget(guard: Guard, size: int) -> JSON:
    body: JSON = {"apiVersion": "example.com/v1", "kind": "Widget"}
    body |= {"metadata": {"name": "w"}, "spec": {"size": size}}
    made = await guard.create(WIDGETS, body)
    return reference(WIDGETS, "w", made["metadata"]["uid"])


@asynccontextmanager
async def with_widget(
    cluster: Cluster,
    size: int,
    *pods: str,
    scale: JSON | None = SCALABLE,
    transport: Transport | None = None,
    **fields: str,
) -> AsyncGenerator[tuple[Guard, RecordingTransport], None]:
    """Run the controller beside a custom object, the owner of these pods."""
    async with running(cluster, transport) as (guard, recording):
        await guard.create(DEFINITIONS, definition(subresources=scale))
        owner = await widget(guard, size)
        await guard.add_pods(*pods, owner={**owner, **fields})
        yield guard, recording


async def test_a_kind_that_gets_a_scale_later_is_counted_then(cluster: Cluster) -> None:
    """It is looked at every five minutes; until then its status is written once.

    Upstream waits for a change of a pod or of the budget, and writes at each.
    """
    async with with_widget(cluster, 1, "a", scale=None) as (guard, recording):
        await guard.guard(maxUnavailable=1)
        with counted_syncs() as syncs:
            await settle(3000)
        assert len(syncs) == 10
        assert await guard.reason() == ("False", "SyncFailed", NO_SCALE)
        message = f"Failed to calculate the number of expected pods: {NO_SCALE}"
        told = ("pdb", "Warning", "controllermanager", message)
        assert await guard.told(FAILED) == [told]
        assert [each.count for each in await guard.events(FAILED)] == [1]
        version = definition(subresources=SCALABLE)["spec"]["versions"]
        patch, name = {"spec": {"versions": version}}, "widgets.example.com"
        await guard.client.patch(DEFINITIONS, "", name, patch, PatchType.MERGE)
        await settle(301)
        assert await guard.numbers() == (1, 0, 1, 1)
    assert [each.status for each in recording.writes] == [200, 200]


async def test_a_hanging_scale_delays_no_other_budget(cluster: Cluster) -> None:
    """Such as that of a resource whose conversion webhook hangs."""
    meddler = Meddler(cluster.transport)

    async def hang(request: Request) -> None:
        if request.path.endswith("/scale"):
            await asyncio.sleep(30)

    async with with_widget(cluster, 2, "a", transport=meddler) as (guard, _):
        meddler.meddle = hang
        for name in ("slow", "slower"):
            await guard.guard(name, maxUnavailable=1)
        await guard.guard("quick", minAvailable=1)
        assert await guard.numbers("quick") == (1, 1, 1, 0)
        assert (await guard.status("slow")).observed_generation == 0
        meddler.meddle = None
        await settle(120)
        assert await guard.numbers("slow") == (2, 1, 1, 0)
