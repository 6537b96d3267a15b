"""The replica set controller with each value of its feature gates."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller_manager.api.apps.v1 import (
    REPLICASETS,
)
from controller_manager.api.core.v1 import PODS
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, Write, make_config
from tests.controllers.builders import replica_set_json, template
from tests.controllers.user import User, settle
from tests.informers.test_informer import Faulty

pytestmark = pytest.mark.looptime


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


@pytest.mark.parametrize(("gate", "answers"), [(True, [200]), (False, [200, 409])])
async def test_a_replica_set_waits_for_its_own_writes_if_the_gate_says_so(
    cluster: Cluster, user: User, gate: bool, answers: list[int]
) -> None:
    """Without it, a sync on the stale cache writes a status that is refused."""
    free = hold(cluster, "replicasets")
    config = config_with({"StaleControllerConsistencyReplicaSet": gate})
    async with cluster.manager(config) as recording:
        await user.create(REPLICASETS, replica_set_json(replicas=2))
        await settle()
        recording.writes.clear()
        free.clear()
        for pod in await user.pods():
            await user.make_ready(pod.metadata.name)
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
    """Expectations work without the versions of written objects."""
    free = hold(cluster, "pods")
    config = config_with({"StaleControllerConsistencyReplicaSet": gate})
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
async def test_initial_lists_come_by_the_watch_if_the_gate_says_so(
    cluster: Cluster, user: User, gate: bool
) -> None:
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
async def test_the_cheap_pod_goes_first_if_costs_count(
    cluster: Cluster, user: User, gate: bool
) -> None:
    """Else the one that has restarted most (TestPodDeletionCost of upstream)."""
    async with cluster.manager(config_with({"PodDeletionCost": gate})):
        await user.create(REPLICASETS, replica_set_json(replicas=2))
        dear, cheap = await user.make_dear_and_cheap_pods()
        await user.patch(REPLICASETS, "rs", {"spec": {"replicas": 1}})
        await settle()
        (left,) = await user.pods()
        assert left.metadata.name == (dear if gate else cheap)
