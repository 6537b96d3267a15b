"""What the controllers do with each feature gate in both positions."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.api.core.v1 import PODS, REPLICATION_CONTROLLERS
from controller_manager.client.transport import Request, Response, Stream
from controller_manager.options.config import Config, FeatureGates
from tests.clusters import Cluster, Write, make_config
from tests.controllers.builders import JSON, deployment_json, template
from tests.controllers.test_on_a_cluster import User, replica_set_json, settle
from tests.informers.test_informer import Faulty

pytestmark = pytest.mark.looptime


@pytest.fixture
def user(cluster: Cluster) -> User:
    return User(cluster)


def config_with(**gates: bool) -> Config:
    return replace(make_config(), features=FeatureGates(**gates))


def replication_controller_json(replicas: int) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "rs", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"app": "rs"},
            "template": template(app="rs"),
        },
    }


async def set_status(user: User, name: str, restarts: int = 0) -> None:
    """Have a pod run and be ready, as long as all others."""
    status = {
        "phase": "Running",
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
        "containerStatuses": [
            {"name": "c", "image": "i", "imageID": "i", "restartCount": restarts}
        ],
    }
    patch = {"status": status}
    await user.client.patch(PODS, "default", name, patch, subresource="status")


def creations(writes: list[Write]) -> int:
    return len([w for w in writes if w.method == "POST" and w.path.endswith("/pods")])


# PodDeletionCost


@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
async def test_the_cheap_pod_goes_first_if_costs_count(
    cluster: Cluster, user: User, kind: str, gate: bool
) -> None:
    """Else the one that has restarted most (TestPodDeletionCost of upstream)."""
    config = config_with(pod_deletion_cost=gate)
    names = ("replicaset-controller", "replicationcontroller-controller")
    config = replace(config, generic=replace(config.generic, controllers=names))
    async with cluster.manager(config):
        if kind == "ReplicaSet":
            resource: Any = REPLICASETS
            await user.create(REPLICASETS, replica_set_json(replicas=2))
        else:
            resource = REPLICATION_CONTROLLERS
            await user.create(resource, replication_controller_json(replicas=2))
        await settle()
        dear, cheap = [pod.metadata.name for pod in await user.pods()]
        cost = {"controller.kubernetes.io/pod-deletion-cost": "100"}
        await user.patch(PODS, dear, {"metadata": {"annotations": cost}})
        await set_status(user, dear, restarts=9)
        await set_status(user, cheap)
        await settle()
        await user.patch(resource, "rs", {"spec": {"replicas": 1}})
        await settle()
        (left,) = await user.pods()
        assert left.metadata.name == (dear if gate else cheap)


# DeploymentReplicaSetTerminatingReplicas


@pytest.mark.parametrize("gate", [True, False])
async def test_terminating_pods_are_counted_if_the_gate_says_so(
    cluster: Cluster, user: User, gate: bool
) -> None:
    """In the status of the deployment and of its replica set."""
    config = config_with(deployment_replica_set_terminating_replicas=gate)
    async with cluster.nodes(), cluster.manager(config):
        await user.create(DEPLOYMENTS, deployment_json(replicas=3))
        await settle()
        await user.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
        await settle(10)
        (replica_set,) = (await user.replica_sets()).values()
        expected = 2 if gate else None
        assert replica_set.status.terminating_replicas == expected
        assert (await user.deployment()).status.terminating_replicas == expected


# StaleControllerConsistencyReplicaSet


class Held:
    """A stream that a test can hold back."""

    def __init__(self, inner: Stream, free: asyncio.Event) -> None:
        self.inner = inner
        self.free = free
        self.status, self.headers = inner.status, inner.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async for chunk in self.inner.chunks():
            await self.free.wait()
            yield chunk

    async def close(self) -> None:
        await self.inner.close()


def hold(cluster: Cluster, plural: str) -> asyncio.Event:
    """Return what lets the watches of a resource come through, set for now."""
    free = asyncio.Event()
    free.set()
    stream = cluster.transport.stream

    async def held(request: Request) -> Any:
        inner = await stream(request)
        return Held(inner, free) if request.path.endswith(f"/{plural}") else inner

    cluster.transport.stream = held  # type: ignore[method-assign]
    return free


@pytest.mark.parametrize(("gate", "answers"), [(True, [200]), (False, [200, 409])])
async def test_a_replica_set_waits_for_its_own_writes_if_the_gate_says_so(
    cluster: Cluster, user: User, gate: bool, answers: list[int]
) -> None:
    """Without it, a sync on the stale cache writes a status that is refused."""
    free = hold(cluster, "replicasets")
    config = config_with(stale_controller_consistency_replica_set=gate)
    async with cluster.manager(config) as recording:
        await user.create(REPLICASETS, replica_set_json(replicas=2))
        await settle()
        recording.writes.clear()
        free.clear()
        for pod in await user.pods():
            await set_status(user, pod.metadata.name)
            await settle(2)
        written = [write.path for write in recording.writes]
        assert {path.rpartition("/replicasets/")[2] for path in written} == {
            "rs/status"
        }
        assert [write.status for write in recording.writes] == answers
        free.set()
        await settle()
        subject = await user.client.get(REPLICASETS, "default", "rs")
        assert subject.status.ready_replicas == 2


@pytest.mark.parametrize("gate", [True, False])
async def test_a_lagging_watch_of_pods_makes_no_surplus_in_either_position(
    cluster: Cluster, user: User, gate: bool
) -> None:
    """Expectations hold without the versions of what was written."""
    free = hold(cluster, "pods")
    config = config_with(stale_controller_consistency_replica_set=gate)
    async with cluster.manager(config) as recording:
        free.clear()
        await user.create(REPLICASETS, replica_set_json(replicas=3))
        for number in range(30):
            await settle(30)
            poke = {"metadata": {"labels": {"poke": str(number)}}}
            await user.patch(REPLICASETS, "rs", poke)
        assert creations(recording.writes) == 3
        free.set()
        await settle(900)
        assert creations(recording.writes) == 3
        subject = await user.client.get(REPLICASETS, "default", "rs")
        assert subject.status.replicas == 3


# AtomicFIFO


async def exchange_pods(cluster: Cluster, user: User) -> None:
    """Replace all pods of the replica set by as many others that it owns, too."""
    subject = await user.client.get(REPLICASETS, "default", "rs")
    for pod in await user.pods():
        if (pod.metadata.labels or {}).get("app") == "rs":
            await user.client.delete(PODS, "default", pod.metadata.name)
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "rs",
        "uid": subject.metadata.uid,
        "controller": True,
    }
    for number in range(3):
        await add_pod(user, f"z-{number}", "rs", ownerReferences=[owner])
    cluster.server.storage.collection("pods").compact()


async def add_pod(user: User, name: str, app: str, **metadata: Any) -> None:
    made = {"name": name, "labels": {"app": app}, **metadata}
    body = {"metadata": made, "spec": template()["spec"]}
    await user.client.create_json(PODS, "default", msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("atomic", "created"), [(True, 3), (False, 6)], ids=["at once", "one by one"]
)
async def test_a_list_replaces_the_cache_at_once_if_the_gate_says_so(
    cluster: Cluster, user: User, atomic: bool, created: int
) -> None:
    """Else a replica set is synced when the old pods are gone and the new not there."""
    transport = Faulty(cluster)
    for number in range(250):
        await add_pod(user, f"other-{number:03}", "other")
    config = config_with(
        atomic_fifo=atomic, stale_controller_consistency_replica_set=False
    )
    async with cluster.manager(config, transport=transport) as recording:
        await user.create(REPLICASETS, replica_set_json(replicas=3))
        await settle()
        unavailable = Response(503, {}, b'{"code":503,"message":"away"}')
        transport.refuse = lambda request: (
            unavailable if request.path.endswith("/pods") else None
        )
        transport.spoil = lambda chunk: None if b'"Pod"' in chunk else chunk
        await exchange_pods(cluster, user)
        await settle(1)
        transport.spoil = lambda chunk: chunk
        transport.refuse = lambda _: None
        await settle(200)
        assert creations(recording.writes) == created
        owned = [
            pod
            for pod in await user.pods()
            if (pod.metadata.labels or {}).get("app") == "rs"
        ]
        assert len(owned) == 3


# WatchListClient


@pytest.mark.parametrize("gate", [True, False])
async def test_initial_lists_come_by_the_watch_if_the_gate_says_so(
    cluster: Cluster, user: User, gate: bool
) -> None:
    """Else pages are read, and the watch follows them."""
    transport = Faulty(cluster)
    config = config_with(watch_list_client=gate)
    async with cluster.manager(config, transport=transport):
        await user.create(REPLICASETS, replica_set_json(replicas=2))
        await settle()
        assert len(await user.pods()) == 2
    lists = [
        dict(request.query).get("sendInitialEvents", "page")
        for request in transport.requests
        if request.method == "GET" and request.path.endswith("/pods")
    ]
    assert lists[0] == ("true" if gate else "page")
    assert lists.count("true") == (1 if gate else 0)
