"""Controllers run and end together, with events and limits of their own."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.api.core.v1 import PODS, Pod, PodMeta
from controller_manager.client.events.recorder import NORMAL, EventBroadcaster
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.manager.controllers import EventBroadcasters
from controller_manager.manager.runnable import Lifetime
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import ClientConfig, RateLimit
from controller_manager.runtime.worker import Workers
from controller_manager.serving.health import probe
from tests.clusters import Cluster, make_config
from tests.controllers.builders import deployment_json, replica_set_json
from tests.controllers.user import User, settle
from tests.manager.daemons import Daemon, RefusedDaemon

pytestmark = pytest.mark.looptime


async def test_controllers_start_one_after_the_other(cluster: Cluster) -> None:
    loop = asyncio.get_running_loop()
    async with cluster.manager(make_config(controller_start_interval=10.0)):
        assert 20 <= loop.time() <= 40.1


async def test_a_slow_webhook_delays_one_namespace(cluster: Cluster) -> None:
    """It takes ten seconds for each of 500 pods of one replica set."""
    cluster.add_namespace("other")
    handle = cluster.server.handle

    async def slow(request: Request) -> Any:
        if request.method == "POST" and request.path.endswith("/default/pods"):
            await asyncio.sleep(10)
        return await handle(request)

    cluster.server.handle = slow  # type: ignore[method-assign]
    user = User(cluster)
    config = replace(make_config(controllers=("replicaset",)), client=ClientConfig())
    async with cluster.manager(config):
        await user.create(REPLICASETS, replica_set_json(replicas=500))
        await asyncio.sleep(95)  # now a batch of 246 pods is waiting
        assert len(await user.pods()) in range(254, 300)
        other = replica_set_json("other", 1)
        other["metadata"]["namespace"] = "other"
        await user.create(REPLICASETS, other)
        await asyncio.sleep(15)
        found = (await cluster.client.list_page(PODS, "other")).items
        assert len(found) == 1


async def test_stopping_finishes_the_syncs_in_progress(cluster: Cluster) -> None:
    handle = cluster.server.handle

    async def slow(request: Request) -> Any:
        if request.method != "GET":
            await asyncio.sleep(2)
        return await handle(request)

    cluster.server.handle = slow  # type: ignore[method-assign]
    user = User(cluster)
    async with cluster.manager(make_config(controllers=("replicaset",))):
        await user.create(REPLICASETS, replica_set_json(replicas=3))
        await asyncio.sleep(1)
    assert len(await user.pods()) == 3
    assert len(await user.events("SuccessfulCreate")) >= 1


async def test_stopping_drops_the_keys_that_wait(cluster: Cluster) -> None:
    """Only syncs that have begun end; the next leader sees the other objects."""
    handle = cluster.server.handle
    loop = asyncio.get_running_loop()
    posts: list[float] = []

    async def slow(request: Request) -> Any:
        if request.method == "POST" and request.path.endswith("/pods"):
            posts.append(loop.time())
            await asyncio.sleep(2)
        return await handle(request)

    cluster.server.handle = slow  # type: ignore[method-assign]
    user = User(cluster)
    async with cluster.manager(make_config(controllers=("replicaset",))):
        for number in range(30):
            await user.create(
                REPLICASETS, replica_set_json(f"web-{number}", replicas=1)
            )
        await asyncio.sleep(1)
        stopped_at = loop.time()
    assert loop.time() - stopped_at < 2
    assert len(posts) == len(await user.pods()) == 5
    assert max(posts) < stopped_at


async def test_a_sync_that_hangs_does_not_stop_the_shutdown(cluster: Cluster) -> None:
    handle = cluster.server.handle

    async def hang(request: Request) -> Any:
        if request.method == "POST" and request.path.endswith("/pods"):
            await asyncio.sleep(10_000)
        return await handle(request)

    loop = asyncio.get_running_loop()
    user = User(cluster)
    await user.create(REPLICASETS, replica_set_json(replicas=3))
    cluster.server.handle = hang  # type: ignore[method-assign]
    async with cluster.manager(make_config(controller_shutdown_timeout=5.0)):
        await asyncio.sleep(1)
        stopped_at = loop.time()
    assert loop.time() - stopped_at < 10


@pytest.mark.parametrize("elects", [True, False])
async def test_a_daemon_whose_controller_waits_can_be_stopped(
    cluster: Cluster, *, elects: bool
) -> None:
    daemon = RefusedDaemon(cluster, {"jobs"})
    async with daemon.running("ttl", "ttl-after-finished", elects=elects) as manager:
        await manager.started.wait()
        await asyncio.sleep(1)
        stopped_at = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - stopped_at < 0.1


async def test_dead_workers_make_a_controller_unhealthy(cluster: Cluster) -> None:
    daemon = Daemon(cluster, "a", make_config())
    await daemon.manager.started.wait()
    await settle(1)
    workers = daemon.manager.controllers["deployment-controller"].controller
    assert isinstance(workers, Workers)
    workers._alive -= 1
    health = probe("healthz", daemon.manager.healthz(), verbose=True)
    assert health.text == (
        "[-]deployment-controller failed: workers have died\n"
        "[+]replicaset-controller ok\nhealthz check failed\n"
    )
    workers._alive += 1
    await daemon.stopped()


async def test_one_controller_may_have_its_own_limit(cluster: Cluster) -> None:
    config = make_config()
    limits = {"replicaset-controller": RateLimit(qps=1, burst=1)}
    limited = replace(config, client=replace(config.client, controllers=limits))
    user = User(cluster)
    async with cluster.manager(limited):
        for name in ("a", "b", "c"):
            await user.create(DEPLOYMENTS, deployment_json(name, replicas=1))
        await asyncio.sleep(0.5)
        # Three at once by the one controller, one by the other.
        listed = await cluster.client.list_page(REPLICASETS)
        assert len(listed.items) == 3
        assert len(await user.pods()) == 1
        await asyncio.sleep(10)
        assert len(await user.pods()) == 3


async def test_settings_of_the_config_reach_the_client(cluster: Cluster) -> None:
    config = make_config()
    limited = replace(
        config, client=replace(config.client, limit=RateLimit(qps=1, burst=1))
    )
    user = User(cluster)
    await user.create(REPLICASETS, replica_set_json(replicas=5))
    async with cluster.manager(limited):
        await asyncio.sleep(2.5)
        assert len(await user.pods()) == 3
        await asyncio.sleep(10)
        assert len(await user.pods()) == 5


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
