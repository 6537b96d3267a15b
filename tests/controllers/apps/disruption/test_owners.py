"""The scales of the owners of pods, in the situations of upstream's tests."""

import asyncio

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS, STATEFUL_SETS
from controller_manager.api.core.v1 import PODS, REPLICATION_CONTROLLERS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import AnyResource
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.transport import Request
from tests.clusters import Cluster
from tests.controllers.apps.disruption.builders import (
    Guard,
    config,
    counted_syncs,
    reference,
    running,
)
from tests.controllers.apps.replicaset.test_on_cluster import Lossy, hold
from tests.controllers.builders import deployment_json, replica_set_json, template
from tests.controllers.custom_resources import (
    DEFINITIONS,
    SCALABLE,
    WIDGETS,
    definition,
)
from tests.controllers.user import settle
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime


UNKNOWN = 'no matches for kind "{}" in version "{}"'


async def own(guard: Guard, resource: AnyResource, replicas: int) -> JSON:
    """Create a workload called "web"; return a reference to it."""
    body = {
        DEPLOYMENTS: deployment_json(replicas=replicas),
        REPLICASETS: replica_set_json("web", replicas),
        STATEFUL_SETS: {
            **replica_set_json("web", replicas, serviceName="web"),
            "kind": "StatefulSet",
        },
        REPLICATION_CONTROLLERS: {
            "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "template": template(app="web")},
        },
    }[resource]
    made = await guard.create(resource, body)
    return reference(resource, "web", made.metadata.uid)


@pytest.mark.parametrize(
    ("resource", "api_version"),
    [
        (REPLICASETS, "apps/v1"),
        (REPLICASETS, "apps/v1beta2"),
        (REPLICASETS, "extensions/v1beta1"),
        (STATEFUL_SETS, "apps/v1"),
        (REPLICATION_CONTROLLERS, "v1"),
        (REPLICATION_CONTROLLERS, "/v1"),
    ],
)
async def test_the_group_and_the_kind_of_a_workload_find_it(
    cluster: Cluster, resource: AnyResource, api_version: str
) -> None:
    """In any version, also former ones; its scale comes from a cache."""
    async with running(cluster) as (guard, _):
        owner = await own(guard, resource, 14)
        await guard.add_pods("a", owner={**owner, "apiVersion": api_version})
        await guard.guard(maxUnavailable=4)
        assert await guard.numbers() == (14, 10, 1, 0)


@pytest.mark.parametrize(
    ("resource", "api_version", "kind"),
    [
        (REPLICASETS, "invalid/v1", "ReplicaSet"),
        (REPLICATION_CONTROLLERS, "apps/v1", "ReplicationController"),
        (REPLICASETS, "apps/v1", "InvalidKind"),
    ],
)
async def test_another_group_or_kind_is_another_owner(
    cluster: Cluster, resource: AnyResource, api_version: str, kind: str
) -> None:
    """No such kind is served."""
    async with running(cluster) as (guard, _):
        owner = await own(guard, resource, 14)
        other = {**owner, "apiVersion": api_version, "kind": kind}
        await guard.add_pods("a", owner=other)
        await guard.guard(maxUnavailable=4)
        message = UNKNOWN.format(kind, api_version)
        assert await guard.reason() == ("False", "SyncFailed", message)


async def test_a_workload_of_another_kind_and_the_same_name_is_another_one(
    cluster: Cluster,
) -> None:
    """The uid differs."""
    async with running(cluster) as (guard, _):
        await own(guard, REPLICASETS, 14)
        owner = await own(guard, STATEFUL_SETS, 3)
        await guard.add_pods("a", owner={**owner, "kind": "ReplicaSet"})
        await guard.guard(maxUnavailable=4)
        message = 'found no controllers for pod "a"'
        assert await guard.reason() == ("False", "SyncFailed", message)


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        ("apps/v1", "Deployment", 10),
        ("extensions/v1beta1", "Deployment", 10),
        # Not its deployment: the API server tells the replica set's own scale.
        ("deployment/v1", "Deployment", 5),
        ("apps/v1", "InvalidKind", 5),
    ],
)
async def test_the_deployment_of_a_replica_set_counts(
    cluster: Cluster, api_version: str, kind: str, expected: int
) -> None:
    """If that is a deployment."""
    async with running(cluster) as (guard, _):
        parent = {
            **await own(guard, DEPLOYMENTS, 10),
            "apiVersion": api_version,
            "kind": kind,
            "controller": True,
        }
        owner = await guard.own(replicas=5, ownerReferences=[parent])
        await guard.add_pods("a", owner=owner)
        await guard.guard(maxUnavailable=1)
        assert await guard.numbers() == (expected, expected - 1, 1, 0)


async def test_the_scales_of_two_workloads_add_up(cluster: Cluster) -> None:
    """A bare pod among theirs counts as healthy, and not as expected."""
    async with running(cluster) as (guard, _):
        controller = await own(guard, REPLICATION_CONTROLLERS, 3)
        await guard.guard(minAvailable="34%")
        # Without pods no budget counts the workload.
        assert await guard.numbers() == (0, 0, 0, 0)
        for number in range(3):
            await guard.add_pods(f"rc-{number}", owner=controller)
            healthy = number + 1
            assert await guard.numbers() == (3, 2, healthy, max(0, healthy - 2))
        await guard.add_pods("rogue")
        assert await guard.numbers() == (3, 2, 4, 2)
        others = await own(guard, STATEFUL_SETS, 8)
        await guard.add_pods("sts-0", owner=others)
        assert await guard.numbers() == (11, 4, 5, 1)


async def test_a_malformed_version_of_an_owner_fails_the_budget(
    cluster: Cluster,
) -> None:
    """A real API server does not store it; the development cluster does."""
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


@pytest.mark.parametrize("plural", ["deployments", "replicasets"])
async def test_an_owner_that_the_cache_shows_after_its_pods_counts_then(
    cluster: Cluster, plural: str
) -> None:
    """Until then the API server tells the scale of the replica set."""
    free = hold(cluster, plural)
    async with running(cluster) as (guard, _):
        free.clear()
        parent = {**await own(guard, DEPLOYMENTS, 6), "controller": True}
        owner = await guard.own(replicas=4, ownerReferences=[parent])
        await guard.add_pods("a", "b", owner=owner)
        await guard.guard(maxUnavailable=5)
        assert await guard.numbers() == (4, 0, 2, 2)
        free.set()
        await settle(1)
        assert await guard.numbers() == (6, 1, 2, 1)


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
