"""The answers of /healthz and /readyz."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request
from controller_manager.serving.health import probe
from tests.clusters import Cluster
from tests.controllers.builders import deployment_json
from tests.controllers.user import User
from tests.manager.daemons import Daemon, now

pytestmark = pytest.mark.looptime


async def test_a_daemon_waits_for_its_server(cluster: Cluster) -> None:
    """Without a limit; it is healthy but not ready, and names the cause of the wait."""
    handle = cluster.server.handle

    async def absent(request: Request) -> Any:
        if now() < 3600:
            msg = f"{request.path}: cannot connect"
            raise TransportError(msg)
        return await handle(request)

    cluster.server.handle = absent  # type: ignore[method-assign]
    daemon = Daemon(cluster, "early")
    await asyncio.sleep(1800)
    checks = daemon.manager.healthz()
    assert probe("healthz", checks, verbose=False).text == "ok"
    ready = probe("readyz", daemon.manager.readyz(), verbose=False)
    assert ready.text.splitlines()[0] == (
        "[-]apiserver failed: waiting for the API server: /healthz: cannot connect"
    )
    await daemon.manager.started.wait()
    assert 3600 <= now() < 3605
    await daemon.stopped()


async def test_the_checks_come_in_their_order(cluster: Cluster) -> None:
    daemon = Daemon(cluster, "a")
    await daemon.manager.started.wait()
    health = daemon.manager
    assert list(health.healthz()) == [
        "leaderElection",
        "deployment-controller",
        "replicaset-controller",
    ]
    assert list(health.readyz()) == [
        "apiserver",
        "shutdown",
        "informer-deployments.apps",
        "informer-replicasets.apps",
        "informer-pods",
    ]
    await daemon.stopped()


async def test_a_daemon_that_ends_is_alive_and_not_ready(cluster: Cluster) -> None:
    """Clients should stop to send requests, and nothing should restart it."""
    handle = cluster.server.handle

    async def slow(request: Request) -> Any:
        if request.method == "POST" and request.path.endswith("/pods"):
            await asyncio.sleep(5)
        return await handle(request)

    cluster.server.handle = slow  # type: ignore[method-assign]
    daemon = Daemon(cluster, "a")
    await daemon.manager.started.wait()
    await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=1))
    await asyncio.sleep(1)
    daemon.stop.set()
    await asyncio.sleep(1)
    health = daemon.manager
    assert probe("healthz", health.healthz(), verbose=False).text == "ok"
    ready = probe("readyz", health.readyz(), verbose=False)
    assert ready.text.splitlines()[1] == "[-]shutdown failed: shutting down"
    await daemon.running
    assert len(await User(cluster).pods()) == 1
