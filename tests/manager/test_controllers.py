"""Each controller waits for its own caches, and none for another's."""

import asyncio
import io
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.core.v1 import NODES
from controller_manager.client.builder import Connections
from controller_manager.client.transport import Request, Response
from controller_manager.manager.manager import ControllerManager
from controller_manager.manager.startup import StartError
from controller_manager.observability.logs import make_logger, silent_logger
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.serving.health import probe
from tests.clusters import Cluster, RecordingTransport, make_config
from tests.controllers.builders import deployment_json
from tests.controllers.test_on_a_cluster import User

pytestmark = pytest.mark.looptime

REFUSAL = b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no jobs here"}'


@dataclass
class Daemon:
    """A manager, on a cluster that refuses to list some resources."""

    cluster: Cluster
    refused: set[str] = field(default_factory=set)
    log: io.StringIO = field(default_factory=io.StringIO)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        handle = self.cluster.server.handle

        async def refuse(request: Request) -> Any:
            if request.path.rpartition("/")[2] in self.refused:
                return Response(403, {}, REFUSAL)
            return await handle(request)

        self.cluster.server.handle = refuse  # type: ignore[method-assign]

    @asynccontextmanager
    async def running(
        self, *controllers: str, elects: bool = True
    ) -> AsyncGenerator[ControllerManager, None]:
        manager = ControllerManager(
            make_config(
                controllers=controllers,
                leader_election=LeaderElectionConfig(leader_elect=elects),
            ),
            Connections(self.cluster.transport, root_ca="PEM"),
            clock=self.cluster.clock,
            rng=random.Random(1),
            logger=make_logger(stream=self.log),
            registry=self.registry,
        )
        stop = asyncio.Event()
        running = asyncio.create_task(manager.run(stop))
        try:
            yield manager
        finally:
            stop.set()
            await running

    def synced(self, controller: str, resource: str) -> float | None:
        labels = {"controller": controller, "resource": resource}
        return self.registry.get_sample_value("controller_cache_synced", labels)


async def test_a_resource_that_cannot_be_listed_holds_up_its_own_controllers_only(
    cluster: Cluster,
) -> None:
    """The lease is taken, the others act, and everybody is told who waits for what."""
    daemon = Daemon(cluster, {"jobs"})
    user = User(cluster)
    async with daemon.running("*") as manager:
        await asyncio.wait_for(manager.started.wait(), 15)
        assert manager.elector is not None
        assert manager.elector.is_leader
        await user.create(DEPLOYMENTS, deployment_json(replicas=3))
        await asyncio.sleep(1)
        assert len(await user.pods()) == 3
        manager._refresh()
        assert daemon.synced("ttl-after-finished-controller", "jobs.batch") == 0
        assert daemon.synced("replicaset-controller", "pods") == 1
        ready = probe("readyz", manager.health.readyz(), verbose=False)
        assert not ready.healthy
        assert (
            "[-]informer-jobs.batch failed: waiting for the cache to sync; "
            "ttl-after-finished-controller cannot start: jobs.batch not read for"
        ) in ready.text
        assert "no jobs here" in ready.text
        log = daemon.log.getvalue()
        assert (
            '"Controller waits for its cache, others go on" err="jobs.batch not read'
        ) in log
        assert 'controller="ttl-after-finished-controller" resource="jobs.batch"' in log
        assert 'Starting controller" controller="ttl-after-finished' not in log


async def test_a_controller_starts_when_its_resource_can_be_listed_at_last(
    cluster: Cluster,
) -> None:
    """However late that is; a restart would not have helped, so none is asked for."""
    daemon = Daemon(cluster, {"jobs"})
    async with daemon.running("ttl", "ttl-after-finished") as manager:
        await asyncio.sleep(7200)
        for name in ("healthz", "livez"):
            assert probe(name, manager.health.healthz(), verbose=False).text == "ok"
        assert not manager.synced.is_set()
        daemon.refused.clear()
        await asyncio.sleep(65)
        assert manager.synced.is_set()
        log = daemon.log.getvalue()
        assert 'Starting controller" controller="ttl-after-finished-controller"' in log
        ready = probe("readyz", manager.health.readyz(), verbose=False)
        assert ready.text == "ok"


async def test_who_cannot_do_anything_does_not_lead(cluster: Cluster) -> None:
    """Another manager may be able to; this one takes the lease once it can work."""
    daemon = Daemon(cluster, {"jobs"})
    async with daemon.running("ttl-after-finished") as manager:
        await asyncio.sleep(600)
        assert manager.elector is not None
        assert not manager.elector.is_leader
        daemon.refused.clear()
        await asyncio.wait_for(manager.started.wait(), 65)
        assert manager.elector.is_leader


async def test_who_needs_no_cache_of_others_waits_for_none(cluster: Cluster) -> None:
    """The garbage collector has watches of its own, which start once it leads."""
    daemon = Daemon(cluster, {"jobs"})
    async with daemon.running("garbagecollector", "ttl-after-finished") as manager:
        await asyncio.wait_for(manager.started.wait(), 15)
        assert manager.elector is not None
        assert manager.elector.is_leader


async def test_the_longest_turn_is_measured(cluster: Cluster) -> None:
    """Of the turns in which workers work; forgotten after a minute or two."""
    daemon = Daemon(cluster)
    async with daemon.running("ttl", elects=False) as manager:
        await manager.started.wait()
        await cluster.client.create_json(NODES, "", b'{"metadata":{"name":"a"}}')
        await asyncio.sleep(1)
        name = "event_loop_longest_turn_seconds"
        measured = daemon.registry.get_sample_value(name)
        assert measured is not None
        assert measured > 0
        await asyncio.sleep(300)
        assert daemon.registry.get_sample_value(name) == 0


async def test_the_lease_has_a_way_of_its_own(cluster: Cluster) -> None:
    """What fills the others' connections must not hold up a renewal."""
    ways = [RecordingTransport(cluster.transport) for _ in range(2)]
    manager = ControllerManager(
        make_config(leader_election=LeaderElectionConfig()),
        Connections(ways[0], lease=ways[1]),
        clock=cluster.clock,
        rng=random.Random(1),
        logger=silent_logger(),
    )
    stop = asyncio.Event()
    running = asyncio.create_task(manager.run(stop))
    await manager.started.wait()
    await asyncio.sleep(60)
    stop.set()
    await running
    by_way = [["/leases" in each.path for each in way.writes] for way in ways]
    assert not any(by_way[0])
    assert all(by_way[1])
    assert len(by_way[1]) > 20


@pytest.mark.parametrize("elects", [True, False])
async def test_a_daemon_whose_controller_waits_can_be_stopped(
    cluster: Cluster, *, elects: bool
) -> None:
    """At once."""
    daemon = Daemon(cluster, {"jobs"})
    async with daemon.running("ttl", "ttl-after-finished", elects=elects) as manager:
        await manager.started.wait()
        await asyncio.sleep(1)
        stopped_at = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - stopped_at < 0.1


async def test_what_was_read_once_and_cannot_be_read_any_more_is_told(
    cluster: Cluster,
) -> None:
    """After five minutes, by /readyz; /healthz is no matter of the API server."""
    daemon = Daemon(cluster)
    async with daemon.running("ttl-after-finished") as manager:
        await manager.started.wait()
        daemon.refused.add("jobs")
        await asyncio.sleep(650)  # until the watch has ended and was refused
        await asyncio.sleep(300)
        ready = probe("readyz", manager.health.readyz(), verbose=False)
        assert "[-]informer-jobs.batch failed: jobs.batch not read for " in ready.text
        assert probe("healthz", manager.health.healthz(), verbose=False).text == "ok"
        daemon.refused.clear()
        await asyncio.sleep(70)
        assert probe("readyz", manager.health.readyz(), verbose=False).text == "ok"


@pytest.mark.parametrize("selection", [("job-controller",), ("-*",), ()])
async def test_a_daemon_without_a_controller_to_run_does_not_start(
    cluster: Cluster, selection: tuple[str, ...]
) -> None:
    """It would take the lease and do nothing."""
    with pytest.raises(StartError, match="there is no controller to run"):
        async with cluster.manager(make_config(controllers=selection)):
            pass
