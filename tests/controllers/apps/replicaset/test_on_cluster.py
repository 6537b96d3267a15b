"""Replica sets on a cluster in memory, beyond the recorded scenarios."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec
import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS, ReplicaSet
from controller_manager.api.core.v1 import PODS, REPLICATION_CONTROLLERS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Resource, controller_reference
from controller_manager.client.builder import Connections
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, Write, make_config, run_manager
from tests.controllers.builders import (
    deployment_json,
    replica_set_json,
    replication_controller_json,
    template,
)
from tests.controllers.user import User, settle
from tests.informers.test_informer import Faulty

pytestmark = pytest.mark.looptime


async def test_a_path_not_found_ends_no_owner(cluster: Cluster, user: User) -> None:
    """A proxy, or a starting API server, may answer so for any path."""
    lost: list[Request] = []

    def refuse(request: Request) -> Response | None:
        if request.path.endswith("/replicasets/rs/status") and len(lost) < 2:
            lost.append(request)
            return Response(404, {}, b"404 page not found\n")
        return None

    transport = Faulty(cluster)
    transport.refuse = refuse
    async with cluster.manager(transport=transport):
        await user.create(REPLICASETS, replica_set_json("rs", replicas=2))
        await settle()
        assert len(lost) == 2
        await user.patch(REPLICASETS, "rs", {"spec": {"replicas": 4}})
        await settle()
        assert len(await user.pods()) == 4


def config_with(gates: dict[str, bool]) -> Config:
    return replace(make_config(), features=FeatureGates(gates))


def creations(writes: list[Write]) -> int:
    return len([w for w in writes if w.method == "POST" and w.path.endswith("/pods")])


class Held:
    """A stream that a test can hold."""

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
    """Return the event that lets the watches of a resource through; it is set."""
    free = asyncio.Event()
    free.set()
    stream = cluster.transport.stream

    async def held(request: Request) -> Any:
        inner = await stream(request)
        return Held(inner, free) if request.path.endswith(f"/{plural}") else inner

    cluster.transport.stream = held  # type: ignore[method-assign]
    return free


async def exchange_pods(cluster: Cluster, user: User) -> None:
    """Replace all pods of the replica set by as many others that it owns, too."""
    subject = await user.client.get(REPLICASETS, "default", "rs")
    for pod in await user.pods():
        if (pod.metadata.labels or {}).get("app") == "rs":
            await user.client.delete(PODS, "default", pod.metadata.name)
    for number in range(3):
        await add_pod(user, f"z-{number}", "rs", ownerReferences=[owner_json(subject)])
    cluster.server.storage.collection("pods").compact()


def owner_json(owner: ReplicaSet) -> JSON:
    reference: JSON = msgspec.to_builtins(controller_reference(owner, REPLICASETS))
    return reference


async def add_pod(user: User, name: str, app: str, **metadata: Any) -> None:
    made = {"name": name, "labels": {"app": app}, **metadata}
    await user.create(PODS, {"metadata": made, "spec": template()["spec"]})


@pytest.mark.parametrize(
    ("atomic", "created"), [(True, 3), (False, 6)], ids=["at once", "one by one"]
)
async def test_a_list_replaces_the_cache_at_once_if_the_gate_says_so(
    cluster: Cluster, user: User, atomic: bool, created: int
) -> None:
    """Otherwise a sync may see neither the old pods nor the new ones."""
    transport = Faulty(cluster)
    for number in range(250):
        await add_pod(user, f"other-{number:03}", "other")
    config = config_with(
        {"AtomicFIFO": atomic, "StaleControllerConsistencyReplicaSet": False}
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


@pytest.mark.parametrize("gate", [True, False])
async def test_a_gate_lists_by_watch(cluster: Cluster, user: User, gate: bool) -> None:
    """Else pages are read, and the watch follows them."""
    transport = Faulty(cluster)
    config = config_with({"WatchListClient": gate})
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


@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize(
    ("resource", "body"),
    [
        (REPLICASETS, replica_set_json("rs", 2)),
        (REPLICATION_CONTROLLERS, replication_controller_json("rs", 2)),
    ],
)
async def test_the_cheap_pod_goes_first_if_costs_count(
    cluster: Cluster, user: User, gate: bool, resource: Resource[Any], body: JSON
) -> None:
    """Else the one that has restarted most (TestPodDeletionCost of upstream)."""
    config = make_config(controllers=("replicaset", "replicationcontroller"))
    config = replace(config, features=FeatureGates({"PodDeletionCost": gate}))
    async with cluster.manager(config):
        await user.create(resource, body)
        dear, cheap = await user.make_dear_and_cheap_pods()
        await user.patch(resource, "rs", {"spec": {"replicas": 1}})
        await settle()
        (left,) = await user.pods()
        assert left.metadata.name == (dear if gate else cheap)


async def test_an_unseen_deletion_is_replaced(cluster: Cluster, user: User) -> None:
    """The controller does not wait for an expectation that is never fulfilled."""
    async with cluster.manager():
        await user.create(REPLICASETS, replica_set_json(replicas=2))
        await settle()
        victim = (await user.pods())[0]
        # It goes in the same moment in which the controller creates another.
        await user.patch(REPLICASETS, "rs", {"spec": {"replicas": 3}})
        await user.client.delete(PODS, "default", victim.metadata.name)
        await settle(400)
        assert len(await user.pods()) == 3


async def test_a_gone_replica_set_gets_no_pods(cluster: Cluster, user: User) -> None:
    """Even if a stale cache still has it; its pods are collected immediately."""

    async def collect() -> None:
        while True:
            for pod in await user.pods():
                await user.client.delete(PODS, "default", pod.metadata.name)
            await asyncio.sleep(0.05)

    connections = Connections(cluster.transport)
    config = make_config()
    async with run_manager(connections, cluster.clock, cluster.rng, config) as manager:
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle()
        informer = manager.informers.informer(REPLICASETS)
        with mock.patch.object(informer, "deleted"):
            await user.client.delete(DEPLOYMENTS, "default", "web")
            for each in (await user.replica_sets()).values():
                await user.client.delete(REPLICASETS, "default", each.metadata.name)
            collecting = asyncio.create_task(collect())
            await settle()
            collecting.cancel()
            await asyncio.gather(collecting, return_exceptions=True)
        assert len(informer.store) == 1
        assert await user.pods() == []
    created = await user.events("SuccessfulCreate")
    assert sum(each.count for each in created) <= 6
