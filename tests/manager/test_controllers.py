"""Controllers start one after the other, and finish their syncs at the end."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from controller_manager.api.apps.v1 import REPLICASETS
from controller_manager.api.core.v1 import PODS
from controller_manager.client.rest.transport import Request
from controller_manager.options.config import ClientConfig
from controller_manager.runtime.worker import Workers
from controller_manager.serving.health import probe
from tests.clusters import Cluster, make_config
from tests.controllers.builders import replica_set_json
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
