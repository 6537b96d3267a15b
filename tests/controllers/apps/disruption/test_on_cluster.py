"""Budgets on a cluster in memory, beyond the recorded scenarios."""

import asyncio

import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.api.policy.v1 import BUDGETS
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import Cluster
from tests.controllers.apps.disruption.builders import (
    Guard,
    config,
    counted_syncs,
    pod_json,
    running,
    writes_status,
)
from tests.controllers.hands import Hands
from tests.controllers.scenarios import Scenario, scenarios
from tests.controllers.user import settle
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime


@scenarios("apps/disruption")
async def test_budgets_follow_pods_and_owners(scenario: Scenario) -> None:
    await scenario.play(Hands, config, Guard)


async def test_an_empty_selector_guards_pods_without_labels(cluster: Cluster) -> None:
    async with running(cluster) as (guard, _):
        await guard.guard(selector={}, minAvailable=1)
        body = pod_json("plain")
        del body["metadata"]["labels"]
        await guard.create(PODS, body)
        await guard.make_ready("plain")
        await settle(1)
        assert await guard.numbers() == (1, 1, 1, 0)


async def test_an_invalid_selector_fails_the_budget(cluster: Cluster) -> None:
    """An API server refuses it; one of long ago may have stored it."""
    async with running(cluster) as (guard, _):
        await guard.add_pods("a")
        await guard.guard(minAvailable=0)
        kind = cluster.server.catalogue.of("policy/v1", "PodDisruptionBudget")
        assert kind is not None
        stored = await guard.client.get_json(BUDGETS, "default", "pdb")
        near = {"key": "app", "operator": "Near", "values": ["web"]}
        stored["spec"]["selector"] = {"matchExpressions": [near]}
        stored["metadata"]["generation"] = 2
        cluster.server.objects.put(kind, ("default", "pdb"), stored)
        await settle(1)
        why = "'Near' is not a valid label selector operator"
        assert await guard.reason() == ("False", "SyncFailed", why)
        assert await guard.numbers() == (1, 0, 1, 0)
        message = f"Failed to get pods: {why}"
        expected = [("pdb", "Warning", "controllermanager", message)]
        assert await guard.told("NoPods") == expected
        await guard.make_unready("a")  # no budget is asked


async def test_a_change_for_nothing_causes_no_sync(cluster: Cluster) -> None:
    async with running(cluster) as (guard, _):
        await guard.add_pods("a")
        await guard.guard(minAvailable=1)
        with counted_syncs() as syncs:
            await guard.patch(PODS, "a", {"metadata": {"annotations": {"x": "y"}}})
            await guard.make_ready("a", restarts=3)
            await settle(1)
            assert syncs == []
            await guard.client.delete(PODS, "default", "a")
            await settle(1)
            assert set(syncs) == {"pdb"}


async def test_a_status_that_is_refused_is_made_safe(cluster: Cluster) -> None:
    """A webhook refuses some statuses; a budget must not allow too much meanwhile."""
    meddler = Meddler(cluster.transport)
    refused: list[Request] = []

    async def refuse(request: Request) -> Response | None:
        is_failure = b"SyncFailed" in (request.body or b"")
        if not writes_status(request) or is_failure or len(refused) == 3:
            return None
        refused.append(request)
        return Response(500, {}, b'{"code":500,"message":"webhook said no"}')

    async with running(cluster, meddler) as (guard, recording):
        await guard.add_pods("a", "b")
        await guard.guard(minAvailable=1)
        assert await guard.numbers() == (2, 1, 2, 1)
        meddler.meddle = refuse
        await guard.make_unready("a")
        assert await guard.numbers() == (2, 1, 1, 0)
        assert await guard.reason() == ("False", "InsufficientPods", "")
    # The status is safe after the first refusal; the next two do not change it.
    assert [each.status for each in recording.writes] == [200, 500, 200, 500, 500, 200]


async def test_a_budget_deleted_in_its_sync_is_not_retried(cluster: Cluster) -> None:
    async with running(cluster) as (guard, recording):
        await guard.add_pods("a")
        await guard.guard(minAvailable=1)
        with counted_syncs() as syncs:
            await guard.make_unready("a")
            await guard.client.delete(BUDGETS, "default", "pdb")
            await asyncio.sleep(300)
        assert set(syncs) == {"pdb"}
    assert {each.status for each in recording.writes} == {200}
