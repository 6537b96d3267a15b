"""Replica sets on a cluster in memory, beyond the recorded scenarios."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec
import pytest

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
)
from controller_manager.api.core.v1 import PODS
from controller_manager.client.builder import Connections
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import (
    Request,
    Response,
    Stream,
    Transport,
)
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, Write, make_config, run_manager
from tests.controllers.builders import deployment_json, replica_set_json, template
from tests.controllers.user import User, settle
from tests.informers.test_informer import Faulty

pytestmark = pytest.mark.looptime


async def test_a_path_that_is_not_found_does_not_mean_that_an_owner_is_gone(
    cluster: Cluster, user: User
) -> None:
    """A proxy, or a starting API server, may answer so for any path."""

    class Starting:
        host = "test"
        lost = 0

        async def request(self, request: Request) -> Response:
            if request.path.endswith("/replicasets/rs/status") and self.lost < 2:
                self.lost += 1
                return Response(404, {}, b"404 page not found\n")
            return await cluster.transport.request(request)

        async def stream(self, request: Request) -> Stream:
            return await cluster.transport.stream(request)

        async def close(self) -> None:
            pass

    transport = Starting()
    async with cluster.manager(transport=transport):
        await user.create(REPLICASETS, replica_set_json("rs", replicas=2))
        await settle()
        assert transport.lost == 2
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


class Lossy:
    """A transport whose requests a test can make fail."""

    host = "lossy"

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.lose: Callable[[Request], str] = lambda _: ""

    async def request(self, request: Request) -> Response:
        how = self.lose(request)
        if how == "before":
            raise TransportError(how)
        answer = await self.inner.request(request)
        if how == "after":
            raise TransportError(how)
        if how == "500":
            return Response(500, {}, b'{"code":500,"message":"etcd timed out"}')
        return answer

    async def stream(self, request: Request) -> Stream:
        return await self.inner.stream(request)

    async def close(self) -> None:
        pass


def creates_pod(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/pods")


@pytest.mark.parametrize("how", ["before", "after", "500"])
async def test_a_create_whose_response_is_lost_makes_no_surplus_pod(
    cluster: Cluster, user: User, how: str
) -> None:
    """There are exactly the wanted pods, even if the API server carried it out."""
    lossy = Lossy(cluster.transport)
    lost = 0
    most = 0

    def lose(request: Request) -> str:
        nonlocal lost
        if creates_pod(request) and lost < 4:
            lost += 1
            return how
        return ""

    lossy.lose = lose
    async with cluster.manager(transport=lossy):
        await user.create(REPLICASETS, replica_set_json(replicas=3))
        for _ in range(100):
            await asyncio.sleep(0.1)
            most = max(most, len(await user.pods()))
    assert lost >= 3
    assert (len(await user.pods()), most) == (3, 3)


async def test_a_watch_that_lags_makes_no_surplus_pod(
    cluster: Cluster, user: User
) -> None:
    """Not even after the expectations have timed out (kubernetes#129795)."""
    frozen = asyncio.Event()
    thawed = asyncio.Event()
    stream = cluster.transport.stream

    class Lagging:
        def __init__(self, inner: Stream) -> None:
            self.inner = inner
            self.status, self.headers = inner.status, inner.headers

        async def chunks(self) -> Any:
            async for chunk in self.inner.chunks():
                if frozen.is_set():
                    await thawed.wait()
                yield chunk

        async def close(self) -> None:
            await self.inner.close()

    async def lag(request: Request) -> Any:
        inner = await stream(request)
        return Lagging(inner) if request.path.endswith("/pods") else inner

    cluster.transport.stream = lag  # type: ignore[method-assign]
    async with cluster.manager():
        frozen.set()
        await user.create(REPLICASETS, replica_set_json(replicas=3))
        await settle(900)
        await user.patch(REPLICASETS, "rs", {"metadata": {"labels": {"poke": "1"}}})
        await settle(900)
        assert len(await user.pods()) == 3
        thawed.set()
        await settle(900)
        assert len(await user.pods()) == 3
        subject = await user.client.get(REPLICASETS, "default", "rs")
        assert subject.status.replicas == 3


async def test_a_pod_whose_deletion_no_watch_showed_is_replaced(
    cluster: Cluster, user: User
) -> None:
    """The controller does not wait for an expectation that is never fulfilled."""
    lossy = Lossy(cluster.transport)
    async with cluster.manager(transport=lossy):
        await user.create(REPLICASETS, replica_set_json(replicas=2))
        await settle()
        victim = (await user.pods())[0]
        # It goes in the same moment in which the controller creates another.
        await user.patch(REPLICASETS, "rs", {"spec": {"replicas": 3}})
        await user.client.delete(PODS, "default", victim.metadata.name)
        await settle(400)
        assert len(await user.pods()) == 3


async def test_a_replica_set_that_is_gone_gets_no_more_pods(
    cluster: Cluster, user: User
) -> None:
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
