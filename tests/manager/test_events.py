"""Events are written until the end, and delay it only for a short time."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from controller_manager.api.core.v1 import PODS, Pod, PodMeta
from controller_manager.client.events.recorder import NORMAL, EventBroadcaster
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.manager.controllers import EventBroadcasters
from controller_manager.manager.runnable import Lifetime
from controller_manager.observability.logs import silent_logger
from tests.clusters import Cluster

pytestmark = pytest.mark.looptime


class Slow:
    """A transport on which each request takes some time."""

    host = "slow"

    def __init__(self, cluster: Cluster, seconds: float) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self.answered = 0

    async def request(self, request: Request) -> Response:
        await asyncio.sleep(self._seconds)
        self.answered += 1
        return await self._cluster.transport.request(request)

    async def stream(self, request: Request) -> Stream:
        return await self._cluster.transport.stream(request)

    async def close(self) -> None:
        pass


@asynccontextmanager
async def running(
    cluster: Cluster, way: Slow
) -> AsyncGenerator[tuple[EventBroadcasters, list[EventBroadcaster]], None]:
    events = EventBroadcasters(cluster.clock, random.Random(1), silent_logger())
    client = Client(way, cluster.clock)
    made = [events.make(client, component) for component in ("a", "b")]
    async with asyncio.TaskGroup() as tasks:
        await events.run(Lifetime(tasks, asyncio.Event()))
        yield events, made
        await events.stop()


def record(recorder: EventBroadcaster, name: str) -> None:
    pod = Pod(metadata=PodMeta(name=name, namespace="default", uid=name))
    recorder.event(PODS, pod, NORMAL, "Tested", "It was tested.")


async def test_recorded_events_are_written_before_the_end(cluster: Cluster) -> None:
    way = Slow(cluster, 2.0)
    loop = asyncio.get_running_loop()
    async with running(cluster, way) as (events, made):
        for recorder in made:
            record(recorder, "web")
        began = loop.time()
        await events.flush()
        assert (loop.time() - began, way.answered) == (2.0, 2)


async def test_a_shutdown_waits_three_seconds_for_events(cluster: Cluster) -> None:
    """A server that does not answer must not stop the process from ending."""
    way = Slow(cluster, 1000.0)
    loop = asyncio.get_running_loop()
    async with running(cluster, way) as (events, made):
        record(made[0], "web")
        began = loop.time()
        await events.flush()
        assert loop.time() - began == 3.0
    assert (loop.time() - began, way.answered) == (3.0, 0)
