"""The scales of the owners of pods, in the situations of upstream's tests."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS, STATEFUL_SETS
from controller_manager.api.core.v1 import PODS, REPLICATION_CONTROLLERS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import AnyResource
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.transport import Request, Transport
from tests.clusters import Cluster, RecordingTransport
from tests.controllers.apps.disruption.builders import (
    Guard,
    counted_syncs,
    reference,
    running,
)
from tests.controllers.apps.replicaset.test_on_cluster import hold
from tests.controllers.apps.statefulset.builders import stateful_set_json
from tests.controllers.builders import replica_set_json, replication_controller_json
from tests.controllers.custom_resources import (
    DEFINITIONS,
    SCALABLE,
    WIDGETS,
    definition,
)
from tests.controllers.responses import accept, refusing
from tests.controllers.user import settle
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime


UNKNOWN = 'no matches for kind "{}" in version "{}"'
STRANGER = 'found no controllers for pod "a"'


async def own(guard: Guard, resource: AnyResource, replicas: int) -> JSON:
    """Create a workload called "web"; return a reference to it."""
    body = {
        REPLICASETS: replica_set_json("web", replicas),
        STATEFUL_SETS: stateful_set_json(replicas=replicas),
        REPLICATION_CONTROLLERS: replication_controller_json("web", replicas),
    }[resource]
    made = await guard.create(resource, body)
    return reference(resource, "web", made.metadata.uid)


@pytest.mark.parametrize(
    ("resource", "fields", "problem"),
    [
        # The group and the kind find a workload in any version, also former ones.
        (REPLICASETS, {}, ""),
        (REPLICASETS, {"apiVersion": "apps/v1beta2"}, ""),
        (REPLICASETS, {"apiVersion": "extensions/v1beta1"}, ""),
        (STATEFUL_SETS, {}, ""),
        (REPLICATION_CONTROLLERS, {}, ""),
        (REPLICATION_CONTROLLERS, {"apiVersion": "/v1"}, ""),
        # Another group or kind is another owner: no such kind is served.
        (
            REPLICASETS,
            {"apiVersion": "invalid/v1"},
            UNKNOWN.format("ReplicaSet", "invalid/v1"),
        ),
        (
            REPLICATION_CONTROLLERS,
            {"apiVersion": "apps/v1"},
            UNKNOWN.format("ReplicationController", "apps/v1"),
        ),
        (
            REPLICASETS,
            {"kind": "InvalidKind"},
            UNKNOWN.format("InvalidKind", "apps/v1"),
        ),
        # A namesake with another uid is another one.
        (REPLICASETS, {"uid": "former"}, STRANGER),
        (STATEFUL_SETS, {"kind": "ReplicaSet"}, STRANGER),
        # A real API server does not store this; the development cluster does.
        (
            REPLICASETS,
            {"apiVersion": "a/b/c", "kind": "X"},
            "unexpected GroupVersion string: a/b/c",
        ),
    ],
)
async def test_the_scale_of_the_owner_counts(
    cluster: Cluster, resource: AnyResource, fields: JSON, problem: str
) -> None:
    async with running(cluster) as (guard, _):
        owner = await own(guard, resource, 14)
        if problem == STRANGER and resource is STATEFUL_SETS:
            await own(guard, REPLICASETS, 3)
        await guard.add_pods("a", owner={**owner, **fields})
        await guard.guard(maxUnavailable=4)
        if problem:
            assert await guard.reason() == ("False", "SyncFailed", problem)
        else:
            assert await guard.numbers() == (14, 10, 1, 0)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 10),
        ({"apiVersion": "extensions/v1beta1"}, 10),
        # Not its deployment: the API server tells the replica set's own scale.
        ({"apiVersion": "deployment/v1"}, 5),
        ({"kind": "InvalidKind"}, 5),
    ],
)
async def test_the_deployment_of_a_replica_set_counts(
    cluster: Cluster, fields: JSON, expected: int
) -> None:
    """If that is a deployment, as long as it exists."""
    async with running(cluster) as (guard, _):
        deployed = await guard.deploy(10)
        deployed["ownerReferences"][0] |= fields
        await guard.add_pods("a", "b", owner=await guard.own(replicas=5, **deployed))
        await guard.guard(maxUnavailable=1)
        assert await guard.numbers() == (expected, expected - 1, 2, 0)
        await guard.delete(DEPLOYMENTS, "web")
        await guard.make_unready("b")
        assert await guard.numbers() == (5, 4, 1, 0)


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
        await guard.add_pods("sts-0", owner=await own(guard, STATEFUL_SETS, 8))
        assert await guard.numbers() == (11, 4, 5, 1)


async def test_two_replica_sets_of_a_deployment_count_once(cluster: Cluster) -> None:
    async with running(cluster) as (guard, _):
        deployed = await guard.deploy(6)
        for name, replicas in (("old", 4), ("new", 3)):
            owner = await guard.own(name, replicas, **deployed)
            await guard.add_pods(f"{name}-1", f"{name}-2", owner=owner)
        await guard.guard(maxUnavailable="50%")
        assert await guard.numbers() == (6, 3, 4, 1)


@pytest.mark.parametrize("resource", [DEPLOYMENTS, REPLICASETS])
async def test_a_scaled_owner_changes_the_status_at_once(
    cluster: Cluster, resource: AnyResource
) -> None:
    """Upstream's status follows when a pod changes, which may never happen."""
    async with running(cluster) as (guard, _):
        metadata = await guard.deploy(2) if resource is DEPLOYMENTS else {}
        await guard.add_pods("a", "b", owner=await guard.own("web", 2, **metadata))
        await guard.guard(maxUnavailable=1)
        assert await guard.numbers() == (2, 1, 2, 1)
        await guard.patch(resource, "web", {"spec": {"replicas": 5}})
        await settle(1)
        assert await guard.numbers() == (5, 4, 2, 0)


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


@pytest.mark.parametrize("plural", ["deployments", "replicasets"])
async def test_an_owner_seen_late_counts_then(cluster: Cluster, plural: str) -> None:
    """Until then the API server tells the scale of the replica set."""
    free = hold(cluster, plural)
    async with running(cluster) as (guard, _):
        free.clear()
        owner = await guard.own(replicas=4, **await guard.deploy(6))
        await guard.add_pods("a", "b", owner=owner)
        await guard.guard(maxUnavailable=5)
        assert await guard.numbers() == (4, 0, 2, 2)
        free.set()
        await settle(1)
        assert await guard.numbers() == (6, 1, 2, 1)


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


@pytest.mark.parametrize("version", ["v1", "v1alpha1"])
async def test_a_custom_scale_counts(cluster: Cluster, version: str) -> None:
    """It is found by discovery and read through its scale subresource.

    Upstream finds no scale if the version that names the owner is not served any more.
    """
    api_version = f"example.com/{version}"
    async with with_widget(cluster, 5, "a", "b", apiVersion=api_version) as (guard, _):
        await guard.guard(maxUnavailable="50%")
        assert await guard.numbers() == (5, 2, 2, 0)
        await guard.patch(WIDGETS, "w", {"spec": {"size": 2}})
        await guard.make_unready("b")
        assert await guard.numbers() == (2, 1, 1, 0)


async def test_a_kind_that_is_defined_later_is_counted_then(cluster: Cluster) -> None:
    """Upstream looks again only when a pod or the budget changes."""
    async with running(cluster) as (guard, _):
        await guard.add_pods("a", owner=reference(WIDGETS, "w", "u"))
        await guard.guard(maxUnavailable=1)
        message = UNKNOWN.format("Widget", "example.com/v1")
        assert await guard.reason() == ("False", "SyncFailed", message)
        await guard.create(DEFINITIONS, definition(subresources=SCALABLE))
        owners = [{**await widget(guard, 3), "controller": True}]
        await settle(60)
        assert await guard.reason() == ("False", "SyncFailed", STRANGER)
        await guard.patch(PODS, "a", {"metadata": {"ownerReferences": owners}})
        await settle(1)
        assert await guard.numbers() == (3, 2, 1, 0)
        assert await guard.reason() == ("False", "InsufficientPods", "")


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


async def test_a_scale_that_cannot_be_read_is_read_again(cluster: Cluster) -> None:
    """Until then the budget allows nothing; upstream waits for a change."""

    def reads_scale(request: Request) -> bool:
        return request.path.endswith("/scale")

    lossy = refusing(cluster, reads_scale, 500, "Timeout")
    async with with_widget(cluster, 2, "a", "b", transport=lossy) as (guard, _):
        await guard.guard(maxUnavailable=1)
        assert await guard.reason() == ("False", "SyncFailed", "refused: Timeout")
        accept(lossy)
        await settle(30)
        assert await guard.numbers() == (2, 1, 2, 1)


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
