"""Budgets on a cluster in memory, beyond the recorded scenarios."""

import asyncio

import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.api.policy.v1 import BUDGETS
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import Cluster
from tests.controllers.apps.disruption.builders import (
    Guard,
    budget_json,
    counted_syncs,
    pod_json,
    running,
    writes_status,
)
from tests.controllers.user import settle
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime


async def test_an_eviction_counts_for_two_minutes(cluster: Cluster) -> None:
    """Then the pod is healthy again, and an event says that it was not deleted."""
    async with running(cluster) as (guard, _):
        await guard.add_pods("a", "b", "c", owner=await guard.own())
        await guard.guard(maxUnavailable=1)
        at = "2026-01-01T00:00:00Z"
        await guard.record_eviction("b", at)
        await settle(10)
        assert await guard.numbers() == (3, 2, 2, 0)
        assert (await guard.status()).disrupted_pods == {"b": at}
        code, answer = await guard.evict("a")
        (cause,) = answer["details"]["causes"]
        assert (code, cause["reason"]) == (429, "DisruptionBudget")
        await settle(115)
        assert await guard.numbers() == (3, 2, 3, 1)
        assert (await guard.status()).disrupted_pods is None
        message = "Pod was expected by PDB default/default to be deleted but it wasn't"
        expected = [("b", "Warning", "controllermanager", message)]
        assert await guard.told("NotDeleted") == expected


async def test_an_eviction_during_a_sync_is_not_lost(cluster: Cluster) -> None:
    meddler = Meddler(cluster.transport)
    async with running(cluster, meddler) as (guard, recording):
        await guard.add_pods("a", "b", "c", owner=await guard.own())
        await guard.guard(maxUnavailable=1)

        async def evict_first(request: Request) -> None:
            if writes_status(request):
                meddler.meddle = None
                await guard.record_eviction("c", "2026-01-01T00:00:02Z")

        meddler.meddle = evict_first
        await guard.make_unready("a")
        assert (await guard.status()).disrupted_pods == {"c": "2026-01-01T00:00:02Z"}
        assert await guard.numbers() == (3, 2, 1, 0)
    assert [each.status for each in recording.writes] == [200, 409, 200]


async def test_a_pod_updates_both_of_its_budgets(cluster: Cluster) -> None:
    """Upstream updates only one of them; both managers record an event."""
    async with running(cluster) as (guard, _):
        await guard.guard("x", minAvailable=1)
        await guard.guard("y", minAvailable=1)
        assert await guard.told("MultiplePodDisruptionBudgets") == []
        await guard.add_pods("a", "b")
        for name in ("x", "y"):
            assert await guard.numbers(name) == (2, 1, 2, 1)
        events = await guard.told("MultiplePodDisruptionBudgets")
        message = (
            'Pod "default"/"a" matches multiple PodDisruptionBudgets.  Chose "x" '
            "arbitrarily."
        )
        assert events[0] == ("a", "Warning", "controllermanager", message)


async def test_a_start_tells_of_pods_with_several_budgets(cluster: Cluster) -> None:
    """As upstream, whose caches begin then."""
    user = Guard(cluster)
    await user.create(PODS, pod_json())
    for name in ("x", "y"):
        await user.create(BUDGETS, budget_json(name, minAvailable=1))
    async with running(cluster) as (guard, _):
        await settle(1)
        told = await guard.told("MultiplePodDisruptionBudgets")
    assert [each[0] for each in told] == ["a"]


async def test_a_pod_that_leaves_a_budget_counts_no_more(cluster: Cluster) -> None:
    """Upstream updates only the budgets that select its new labels."""
    async with running(cluster) as (guard, _):
        await guard.add_pods("a", "b")
        await guard.guard(minAvailable=1)
        assert await guard.numbers() == (2, 1, 2, 1)
        await guard.patch(PODS, "b", {"metadata": {"labels": {"app": "other"}}})
        await settle(1)
        assert await guard.numbers() == (1, 1, 1, 0)


async def test_a_budget_without_limits_allows_no_eviction(cluster: Cluster) -> None:
    """It expects no pods, even if its pods have owners; a limit changes that."""
    async with running(cluster) as (guard, _):
        await guard.add_pods("a", "b", owner=await guard.own())
        await guard.add_pods("bare")
        await guard.guard()
        assert await guard.numbers() == (0, 0, 3, 0)
        assert await guard.reason() == ("False", "InsufficientPods", "")
        assert await guard.told("UnmanagedPods") == []
        code, answer = await guard.evict("a")
        why = "The disruption budget pdb does not allow evicting pods currently"
        cause = {"reason": "DisruptionBudget", "message": why}
        assert (code, answer["details"]["causes"]) == (429, [cause])
        await guard.patch(BUDGETS, "pdb", {"spec": {"minAvailable": 2}})
        await settle(1)
        assert await guard.numbers() == (3, 2, 3, 1)
        await guard.patch(BUDGETS, "pdb", {"spec": {"minAvailable": None}})
        await settle(1)
        assert await guard.numbers() == (0, 0, 3, 0)


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


async def test_a_status_that_upstream_wrote_is_not_written(cluster: Cluster) -> None:
    """A user who swaps the managers sees no write."""
    async with running(cluster) as (guard, _):
        await guard.add_pods("a", "b", "c", owner=await guard.own())
        await guard.guard(maxUnavailable=1)
    condition = {
        "type": "DisruptionAllowed",
        "status": "True",
        "observedGeneration": 1,
        "lastTransitionTime": "2025-01-01T00:00:00Z",
        "reason": "SufficientPods",
        "message": "",
    }
    await guard.write_status(
        observedGeneration=1,
        disruptionsAllowed=1,
        currentHealthy=3,
        desiredHealthy=2,
        expectedPods=3,
        conditions=[condition],
    )
    async with running(cluster) as (_, recording):
        await settle(60)
    assert recording.writes == []
