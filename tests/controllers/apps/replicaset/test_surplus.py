"""A replica set creates no surplus pods when responses are lost or watches lag."""

import asyncio
from collections.abc import Callable
from typing import Any
from unittest import mock

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
from tests.clusters import Cluster, make_config, run_manager
from tests.controllers.builders import deployment_json, replica_set_json
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime


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
