"""Several managers on one cluster: one writes, another is ready to."""

import asyncio
import io
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.coordination.v1 import LEASES, Lease, LeaseSpec
from controller_manager.api.core.v1 import PODS
from controller_manager.api.meta import ObjectMeta
from controller_manager.client.builder import Connections
from controller_manager.client.errors import TransportError
from controller_manager.client.leader_election import (
    LeadershipLost,
    is_of_this_program,
)
from controller_manager.client.transport import Request, Response, Stream
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import make_logger, silent_logger
from controller_manager.options.config import Config, LeaderElectionConfig
from controller_manager.runtime.worker import Workers
from controller_manager.serving.health import probe
from tests.clusters import Cluster, make_config
from tests.controllers.builders import deployment_json
from tests.controllers.test_on_a_cluster import User, settle

pytestmark = pytest.mark.looptime

ELECTING = make_config(leader_election=LeaderElectionConfig())


@dataclass
class Way:
    """A manager's way to the server: it can be cut, and remembers requests."""

    cluster: Cluster
    hangs: bool = False
    writes: list[tuple[float, str]] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    flows: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.flows.set()

    @property
    def host(self) -> str:
        return "way"

    async def request(self, request: Request) -> Response:
        if self.hangs:
            await asyncio.sleep(min(request.timeout, 1e6))
            msg = f"{request.path}: no answer"
            raise TransportError(msg)
        kind = request.path.rpartition("/")[2]
        if request.method == "GET":
            self.reads.append(kind)
        elif "/leases" not in request.path:
            self.writes.append((now(), f"{request.method} {request.path}"))
        return await self.cluster.transport.request(request)

    async def stream(self, request: Request) -> Stream:
        kind = request.path.rpartition("/")[2]
        self.reads.append(kind)
        inner = await self.cluster.transport.stream(request)
        return _Held(inner, self) if kind == "pods" else inner

    async def close(self) -> None:
        pass


@dataclass
class _Held:
    """A watch of pods that brings nothing while it is held up."""

    inner: Stream
    way: Way

    @property
    def status(self) -> int:
        return self.inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self.inner.headers

    async def close(self) -> None:
        await self.inner.close()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self.inner.chunks()) as chunks:
            async for chunk in chunks:
                await self.way.flows.wait()
                yield chunk


def now() -> float:
    return asyncio.get_running_loop().time()


class Daemon:
    """One manager, run as its process would be."""

    def __init__(self, cluster: Cluster, name: str, config: Config = ELECTING) -> None:
        self.way = Way(cluster)
        self.manager = ControllerManager(
            config,
            Connections(self.way),
            clock=cluster.clock,
            rng=random.Random(name),
            logger=silent_logger(),
        )
        self.stop = asyncio.Event()
        self.running = asyncio.create_task(self.manager.run(self.stop))

    async def stopped(self) -> None:
        """Stop it cleanly."""
        self.stop.set()
        await self.running

    async def killed(self) -> None:
        """End it as SIGKILL does: at once, with nothing said."""
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)


@asynccontextmanager
async def leader_and_standby(
    cluster: Cluster,
) -> AsyncGenerator[tuple[Daemon, Daemon], None]:
    first = Daemon(cluster, "first")
    await first.manager.started.wait()
    second = Daemon(cluster, "second")
    await second.manager.synced.wait()
    await settle(0.1)  # it has looked at the lease
    try:
        yield first, second
    finally:
        for each in (first, second):
            if not each.running.done():
                await each.stopped()


async def test_a_standby_writes_nothing_and_is_ready(cluster: Cluster) -> None:
    """Its caches are synced, its queue holds what there is to do."""
    async with leader_and_standby(cluster) as (first, second):
        await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=3))
        await settle()
        assert len(first.way.writes) > 3
        assert second.way.writes == []
        ready = probe("readyz", second.manager.health.readyz(), verbose=True)
        assert ready.text == (
            "[+]apiserver ok\n[+]shutdown ok\n[+]informer-deployments.apps ok\n"
            "[+]informer-replicasets.apps ok\n[+]informer-pods ok\n"
            "readyz check passed\n"
        )


async def test_after_a_clean_stop_the_standby_acts_at_once(cluster: Cluster) -> None:
    """It lists nothing, it has everything."""
    async with leader_and_standby(cluster) as (first, second):
        reads = len(second.way.reads)
        stopped_at = now()
        await first.stopped()
        await second.manager.started.wait()
        assert now() - stopped_at < 0.1
        await settle(10)  # what is made from now on is sure to be its own
        await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=3))
        await settle(1)
        assert len(await User(cluster).pods()) == 3
        # The lease was read once; nothing was listed.
        assert second.way.reads[reads:] == ["kube-controller-manager"]


async def test_a_standby_whose_cache_lags_creates_no_pod_twice(
    cluster: Cluster,
) -> None:
    """What the leader before it did is looked up before anything is done."""
    user = User(cluster)
    async with leader_and_standby(cluster) as (first, second):
        second.way.flows.clear()
        await user.create(DEPLOYMENTS, deployment_json(replicas=3))
        await settle(5)
        assert len(await user.pods()) == 3
        await first.stopped()
        await second.manager.started.wait()
        await settle(60)
        created = [each for _, each in second.way.writes if each.endswith("/pods")]
        assert created == []
        second.way.flows.set()
        await settle(60)
        assert len(await user.pods()) == 3
        assert not [each for _, each in second.way.writes if "/pods" in each]


async def test_after_a_kill_the_standby_acts_when_the_lease_has_ended(
    cluster: Cluster,
) -> None:
    """Fifteen seconds after the last renewal; what happened meanwhile is done."""
    async with leader_and_standby(cluster) as (first, second):
        await asyncio.sleep(31)
        killed_at = now()
        await first.killed()
        await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=3))
        await second.manager.started.wait()
        assert 13 <= now() - killed_at <= 15.1
        await settle(1)
        assert len(await User(cluster).pods()) == 3


async def test_a_leader_that_is_cut_off_writes_no_more_and_ends(
    cluster: Cluster,
) -> None:
    """Before another can lead, with LeadershipLost, which is exit code 1."""
    user = User(cluster)
    async with leader_and_standby(cluster) as (first, second):
        await asyncio.sleep(20)
        first.way.hangs = True
        cut_at = now()
        await user.create(DEPLOYMENTS, deployment_json(replicas=3))
        with pytest.RaisesGroup(LeadershipLost, flatten_subgroups=True):
            await first.running
        assert now() - cut_at <= 10
        first.way.hangs = False
        await second.manager.started.wait()
        await settle()
        assert len(await user.pods()) == 3
        assert [when for when, _ in first.way.writes if when > cut_at] == []


async def test_a_daemon_that_starts_first_waits_for_its_server(
    cluster: Cluster,
) -> None:
    """For as long as it takes, alive and not ready, and says for what."""
    handle = cluster.server.handle

    async def absent(request: Request) -> Any:
        if now() < 3600:
            msg = f"{request.path}: cannot connect"
            raise TransportError(msg)
        return await handle(request)

    cluster.server.handle = absent  # type: ignore[method-assign]
    daemon = Daemon(cluster, "early")
    await asyncio.sleep(1800)
    checks = daemon.manager.health.healthz()
    assert probe("healthz", checks, verbose=False).text == "ok"
    ready = probe("readyz", daemon.manager.health.readyz(), verbose=False)
    assert ready.text.splitlines()[0] == (
        "[-]apiserver failed: waiting for the API server: /healthz: cannot connect"
    )
    await daemon.manager.started.wait()
    assert 3600 <= now() < 3605
    await daemon.stopped()


async def test_a_leader_survives_a_restart_of_its_server(cluster: Cluster) -> None:
    """Shorter than the renew deadline, it goes on as if nothing had happened."""
    handle = cluster.server.handle
    daemon = Daemon(cluster, "a")
    await daemon.manager.started.wait()
    gone_at = now()

    async def restarting(request: Request) -> Any:
        if now() < gone_at + 7:
            msg = f"{request.path}: cannot connect"
            raise TransportError(msg)
        return await handle(request)

    cluster.server.handle = restarting  # type: ignore[method-assign]
    await asyncio.sleep(60)
    await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=3))
    await settle()
    assert len(await User(cluster).pods()) == 3
    await daemon.stopped()


async def test_a_controllers_workers_that_died_make_it_unhealthy(
    cluster: Cluster,
) -> None:
    """By its name, among the checks."""
    daemon = Daemon(cluster, "a", make_config())
    await daemon.manager.started.wait()
    await settle(1)
    workers = daemon.manager.controllers["deployment-controller"].controller
    assert isinstance(workers, Workers)
    workers._alive -= 1
    health = probe("healthz", daemon.manager.health.healthz(), verbose=True)
    assert health.text == (
        "[-]deployment-controller failed: workers have died\n"
        "[+]replicaset-controller ok\nhealthz check failed\n"
    )
    workers._alive += 1
    await daemon.stopped()


@pytest.mark.parametrize(
    ("former", "warned"),
    [
        ("node_4f8c1c53-9d5c-4b8e-8d57-0b7a4b1e2c3d", True),
        ("node_4f8c1c53-9d5c-8b8e-8d57-0b7a4b1e2c3d", False),
        ("", False),
    ],
)
async def test_taking_over_from_upstreams_manager_names_what_nobody_runs_now(
    cluster: Cluster, former: str, *, warned: bool
) -> None:
    """Its identity ends in a UUID of version 4, one of this program of version 8."""
    name, namespace = "kube-controller-manager", "kube-system"
    held = Lease(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=LeaseSpec(holder_identity=former, lease_duration_seconds=15),
    )
    await cluster.client.create(LEASES, held)
    log = io.StringIO()
    manager = ControllerManager(
        ELECTING,
        Connections(cluster.transport),
        clock=cluster.clock,
        rng=random.Random(1),
        logger=make_logger(stream=log),
    )
    stop = asyncio.Event()
    running = asyncio.create_task(manager.run(stop))
    await manager.started.wait()
    stop.set()
    await running
    lines = [line for line in log.getvalue().splitlines() if "another kind" in line]
    assert len(lines) == warned
    for line in lines:
        assert f'former="{former}"' in line
        assert "job-controller, " in line
        assert " token-cleaner-controller" not in line
        assert " deployment-controller" not in line
    assert is_of_this_program(manager.elector.identity)  # type: ignore[union-attr]


async def test_rollouts_are_measured(cluster: Cluster) -> None:
    """From their first sync to the one that completes them; healing is none."""
    daemon = Daemon(cluster, "a")
    await daemon.manager.started.wait()
    user = User(cluster)
    async with cluster.nodes(start_delay=5.0):
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle(30)
        pods = await user.pods()
        await cluster.client.delete(PODS, "default", pods[0].metadata.name)
        await settle(60)
    registry = daemon.manager._registry
    count = registry.get_sample_value("deployment_rollout_duration_seconds_count")
    total = registry.get_sample_value("deployment_rollout_duration_seconds_sum")
    assert count == 1
    assert total == pytest.approx(5, abs=1)
    await daemon.stopped()
