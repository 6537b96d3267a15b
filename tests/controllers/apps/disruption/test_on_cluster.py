"""Budgets on a cluster in memory, beyond the recorded scenarios."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.policy.v1 import BUDGETS
from controller_manager.api.selectors import Selector
from controller_manager.client.client import PatchType
from controller_manager.client.transport import Request, Response
from tests.clusters import Cluster
from tests.controllers.apps.disruption.cases import budget_json, pod_json
from tests.controllers.apps.disruption.fixtures import (
    Guard,
    Meddler,
    counted_syncs,
    reference,
    running,
    writes_status,
)
from tests.controllers.apps.replicaset.test_surplus import Lossy
from tests.controllers.builders import deployment_json
from tests.controllers.custom_resources import (
    DEFINITIONS,
    SCALABLE,
    WIDGETS,
    definition,
)
from tests.controllers.user import settle

pytestmark = pytest.mark.looptime

JSON = dict[str, Any]

_FAILED = "CalculateExpectedPodCountFailed"
NO_SCALE = "widgets.example.com does not implement the scale subresource"


def widget(size: int) -> JSON:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": size},
    }


# The scales of owners.


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


async def test_a_malformed_version_of_an_owner_fails_the_budget(
    cluster: Cluster,
) -> None:
    """An API server stores it: it checks only that there is one."""
    async with running(cluster) as (guard, _):
        owner = {"apiVersion": "a/b/c", "kind": "X", "name": "x", "uid": "u"}
        await guard.add_pods("a", owner=owner)
        await guard.guard(maxUnavailable=1)
        message = "unexpected GroupVersion string: a/b/c"
        assert await guard.reason() == ("False", "SyncFailed", message)


async def test_a_replica_set_without_its_deployment_counts_by_itself(
    cluster: Cluster,
) -> None:
    """The deployment's scale counts as long as the deployment exists."""
    async with running(cluster) as (guard, _):
        made = await guard.create(DEPLOYMENTS, deployment_json(replicas=6))
        parent = reference(DEPLOYMENTS, "web", made.metadata.uid)
        owners = [{**parent, "controller": True}]
        owner = await guard.own(replicas=4, ownerReferences=owners)
        await guard.add_pods("a", "b", owner=owner)
        await guard.guard(maxUnavailable=5)
        assert await guard.numbers() == (6, 1, 2, 1)
        await guard.client.delete(DEPLOYMENTS, "default", "web")
        await guard.make_unready("b")
        assert await guard.numbers() == (4, 0, 1, 1)


async def test_two_replica_sets_of_a_deployment_count_once(cluster: Cluster) -> None:
    """During a rollout there are pods of both."""
    async with running(cluster) as (guard, _):
        made = await guard.create(DEPLOYMENTS, deployment_json(replicas=6))
        parent = reference(DEPLOYMENTS, "web", made.metadata.uid)
        owners = [{**parent, "controller": True}]
        for name, replicas in (("old", 4), ("new", 3)):
            owner = await guard.own(name, replicas, ownerReferences=owners)
            await guard.add_pods(f"{name}-1", f"{name}-2", owner=owner)
        await guard.guard(maxUnavailable="50%")
        assert await guard.numbers() == (6, 3, 4, 1)


async def test_a_namesake_of_an_owner_is_no_owner(cluster: Cluster) -> None:
    """The replica set of that name is another one."""
    async with running(cluster) as (guard, _):
        owner = await guard.own()
        await guard.add_pods("a", owner={**owner, "uid": "former"})
        await guard.guard(maxUnavailable=1)
        message = 'found no controllers for pod "a"'
        assert await guard.reason() == ("False", "SyncFailed", message)


@pytest.mark.parametrize("through_deployment", [False, True])
async def test_a_scaled_owner_changes_the_status_at_once(
    cluster: Cluster, through_deployment: bool
) -> None:
    """Upstream's status follows when a pod changes, which may never happen."""
    async with running(cluster) as (guard, _):
        metadata: JSON = {}
        if through_deployment:
            made = await guard.create(DEPLOYMENTS, deployment_json(replicas=2))
            parent = reference(DEPLOYMENTS, "web", made.metadata.uid)
            metadata = {"ownerReferences": [{**parent, "controller": True}]}
        owner = await guard.own("web", 2, **metadata)
        await guard.add_pods("a", "b", owner=owner)
        await guard.guard(maxUnavailable=1)
        assert await guard.numbers() == (2, 1, 2, 1)
        resource = DEPLOYMENTS if through_deployment else REPLICASETS
        await guard.patch(resource, "web", {"spec": {"replicas": 5}})
        await settle(1)
        assert await guard.numbers() == (5, 4, 2, 0)


async def test_a_replica_set_that_a_deployment_adopts_counts_no_more_itself(
    cluster: Cluster,
) -> None:
    """Its own scale changes in each rollout; that causes no sync then."""
    async with running(cluster) as (guard, _):
        owner = await guard.own("web", 2)
        await guard.add_pods("a", "b", owner=owner)
        await guard.guard(maxUnavailable=1)
        assert await guard.numbers() == (2, 1, 2, 1)
        made = await guard.create(DEPLOYMENTS, deployment_json(replicas=3))
        parent = reference(DEPLOYMENTS, "web", made.metadata.uid)
        owners = [{**parent, "controller": True}]
        await guard.patch(REPLICASETS, "web", {"metadata": {"ownerReferences": owners}})
        await settle(1)
        assert await guard.numbers() == (3, 2, 2, 0)
        with counted_syncs() as syncs:
            await guard.patch(REPLICASETS, "web", {"spec": {"replicas": 1}})
            await settle(1)
        assert syncs == []


# Evictions.


async def test_an_eviction_that_is_not_carried_out_counts_for_two_minutes(
    cluster: Cluster,
) -> None:
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
        assert (code, answer["details"]["causes"][0]["reason"]) == (
            429,
            "DisruptionBudget",
        )
        await settle(115)
        assert await guard.numbers() == (3, 2, 3, 1)
        assert (await guard.status()).disrupted_pods is None
        message = "Pod was expected by PDB default/default to be deleted but it wasn't"
        expected = [("b", "Warning", "controllermanager", message)]
        assert await guard.told("NotDeleted") == expected


async def test_an_eviction_during_a_sync_is_not_lost(cluster: Cluster) -> None:
    """The status that does not know of it is refused, and calculated again."""
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


# Changes that concern a budget.


async def test_both_budgets_of_a_pod_follow_it(cluster: Cluster) -> None:
    """Upstream looks at one of them only; an event tells of the two in both cases."""
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
    """Upstream looks only at the budgets of its new labels."""
    async with running(cluster) as (guard, _):
        await guard.add_pods("a", "b")
        await guard.guard(minAvailable=1)
        assert await guard.numbers() == (2, 1, 2, 1)
        await guard.patch(PODS, "b", {"metadata": {"labels": {"app": "other"}}})
        await settle(1)
        assert await guard.numbers() == (1, 1, 1, 0)


async def test_an_empty_selector_guards_pods_without_labels(cluster: Cluster) -> None:
    """Also those that come later."""
    async with running(cluster) as (guard, _):
        await guard.guard(selector={}, minAvailable=1)
        body = pod_json("plain")
        del body["metadata"]["labels"]
        await guard.create(PODS, body)
        await guard.make_ready("plain")
        await settle(1)
        assert await guard.numbers() == (1, 1, 1, 0)


async def test_a_change_that_counts_for_nothing_causes_no_sync(
    cluster: Cluster,
) -> None:
    """Such as an annotation, or the start of a container."""
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


async def test_a_sync_costs_nothing_for_pods_of_others(cluster: Cluster) -> None:
    """However many of them are in the namespace."""
    async with running(cluster) as (guard, _):
        for number in range(500):
            cluster.add("Pod", f"other-{number}", **_foreign(number))
        await guard.add_pods("a", "b", owner=await guard.own())
        with counted_matches() as matches:
            await guard.guard(maxUnavailable=1)
            await guard.guard("in", selector=_expression("In", "web"), minAvailable=1)
            await guard.make_unready("a")
        assert await guard.numbers("in") == (2, 1, 1, 0)
        assert len(matches) < 40


def _foreign(number: int) -> JSON:
    metadata = {"name": f"other-{number}", "labels": {"app": f"o{number % 7}"}}
    return {"metadata": metadata, "spec": pod_json()["spec"]}


def _expression(operator: str, *values: str) -> JSON:
    expression = {"key": "app", "operator": operator, "values": list(values)}
    return {"matchExpressions": [expression]}


@contextmanager
def counted_matches() -> Iterator[list[Selector]]:
    """Yield a list that gets each selector that is compared with labels."""
    found: list[Selector] = []
    original = Selector.matches

    def counting(self: Selector, labels: Any) -> bool:
        found.append(self)
        return original(self, labels)

    with mock.patch.object(Selector, "matches", counting):
        yield found


# Failures.


async def test_a_status_that_cannot_be_written_is_made_safe_and_tried_again(
    cluster: Cluster,
) -> None:
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
    # Safe after the first refusal; the next two change nothing more.
    assert [each.status for each in recording.writes] == [200, 500, 200, 500, 500, 200]


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


async def test_a_budget_that_is_deleted_during_its_sync_is_left(
    cluster: Cluster,
) -> None:
    """Nothing is tried again."""
    async with running(cluster) as (guard, recording):
        await guard.add_pods("a")
        await guard.guard(minAvailable=1)
        with counted_syncs() as syncs:
            await guard.make_unready("a")
            await guard.client.delete(BUDGETS, "default", "pdb")
            await asyncio.sleep(300)
        assert set(syncs) == {"pdb"}
    assert {each.status for each in recording.writes} == {200}
