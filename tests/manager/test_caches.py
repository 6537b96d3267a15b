"""Each controller waits for its own caches only."""

import asyncio

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.serving.health import probe
from tests.clusters import Cluster
from tests.controllers.builders import deployment_json
from tests.controllers.user import User
from tests.manager.daemons import RefusedDaemon

pytestmark = pytest.mark.looptime


async def test_an_unlisted_resource_delays_its_controllers(cluster: Cluster) -> None:
    """The manager leads, the others start, and the checks say who waits for what."""
    daemon = RefusedDaemon(cluster, {"jobs"})
    user = User(cluster)
    async with daemon.running("*") as manager:
        await asyncio.wait_for(manager.started.wait(), 15)
        assert manager.elector is not None
        assert manager.elector.seconds_left() > 0
        await user.create(DEPLOYMENTS, deployment_json(replicas=3))
        await asyncio.sleep(1)
        assert len(await user.pods()) == 3
        manager._refresh()
        assert daemon.synced("ttl-after-finished-controller", "jobs.batch") == 0
        assert daemon.synced("replicaset-controller", "pods") == 1
        ready = probe("readyz", manager.readyz(), verbose=False)
        assert not ready.healthy
        assert (
            "[-]informer-jobs.batch failed: waiting for the cache to sync; "
            "cronjob-controller, job-controller, ttl-after-finished-controller cannot "
            "start: jobs.batch not read for"
        ) in ready.text
        assert "no jobs here" in ready.text
        log = daemon.log.getvalue()
        assert (
            '"Controller waits for its cache, others start" err="jobs.batch not read'
        ) in log
        assert 'controller="ttl-after-finished-controller" resource="jobs.batch"' in log
        assert 'Starting controller" controller="ttl-after-finished' not in log


@pytest.mark.slow
async def test_a_controller_starts_when_its_resource_can_be_listed_at_last(
    cluster: Cluster,
) -> None:
    """The health check passes meanwhile, because a restart would not help."""
    daemon = RefusedDaemon(cluster, {"jobs"})
    async with daemon.running("ttl", "ttl-after-finished") as manager:
        await asyncio.sleep(7200)
        for name in ("healthz", "livez"):
            assert probe(name, manager.healthz(), verbose=False).text == "ok"
        assert not manager.synced.is_set()
        daemon.refused.clear()
        await asyncio.sleep(65)
        assert manager.synced.is_set()
        log = daemon.log.getvalue()
        assert 'Starting controller" controller="ttl-after-finished-controller"' in log
        ready = probe("readyz", manager.readyz(), verbose=False)
        assert ready.text == "ok"


async def test_a_manager_that_is_not_synced_does_not_lead(cluster: Cluster) -> None:
    """Another manager may have its caches; this one leads once a cache is synced."""
    daemon = RefusedDaemon(cluster, {"jobs"})
    async with daemon.running("ttl-after-finished") as manager:
        await asyncio.sleep(600)
        assert manager.elector is not None
        assert manager.elector.seconds_left() == 0
        daemon.refused.clear()
        await asyncio.wait_for(manager.started.wait(), 65)
        assert manager.elector.seconds_left() > 0


async def test_without_shared_caches_none_is_awaited(cluster: Cluster) -> None:
    daemon = RefusedDaemon(cluster, {"jobs"})
    async with daemon.running("garbagecollector", "ttl-after-finished") as manager:
        await asyncio.wait_for(manager.started.wait(), 15)
        assert manager.elector is not None
        assert manager.elector.seconds_left() > 0


async def test_a_synced_cache_that_breaks_is_reported(cluster: Cluster) -> None:
    daemon = RefusedDaemon(cluster)
    async with daemon.running("ttl-after-finished") as manager:
        await manager.started.wait()
        daemon.refused.add("jobs")
        await asyncio.sleep(650)  # until the watch has ended and was refused
        await asyncio.sleep(300)
        ready = probe("readyz", manager.readyz(), verbose=False)
        assert "[-]informer-jobs.batch failed: jobs.batch not read for " in ready.text
        assert probe("healthz", manager.healthz(), verbose=False).text == "ok"
        daemon.refused.clear()
        await asyncio.sleep(70)
        assert probe("readyz", manager.readyz(), verbose=False).text == "ok"
