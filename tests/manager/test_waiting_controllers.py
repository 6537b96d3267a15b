"""Controllers wait for their resources and caches."""

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.meta import PartialObject, Resource
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.registry.apps import DEPLOYMENTS as DEPLOYMENT
from controller_manager.registry import registry as this_build
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.registry import Registry
from controller_manager.runtime.watches import For
from controller_manager.serving.health import HealthCheck, probe
from tests.clusters import Cluster
from tests.controllers.builders import deployment_json
from tests.controllers.user import User, settle
from tests.devcluster.registry.apiextensions.test_definitions import DEFINITIONS, spec
from tests.devcluster.requests import call
from tests.manager.daemons import Daemon, RefusedDaemon, leader_and_standby, now

pytestmark = pytest.mark.looptime


NAME = "deployment-controller"
OTHER = "replicaset-controller"
INTERVAL = 30.0
"""Seconds between two looks for missing resources."""

SETTLED = 0.5
WIDGETS: Resource[PartialObject] = Resource(
    "example.com", "v1", "widgets", "Widget", PartialObject
)


def text_of(checks: Mapping[str, HealthCheck]) -> str:
    return probe("healthz", checks, verbose=True).text


async def test_a_group_switched_on_starts_its_controller(cluster: Cluster) -> None:
    catalogue = cluster.server.catalogue
    catalogue.remove(DEPLOYMENT)
    daemon = RefusedDaemon(cluster)
    async with daemon.running("deployment", "replicaset") as manager:
        await manager.started.wait()
        await settle(100)
        assert manager.controllers.names == [OTHER]
        assert text_of(manager.healthz()) == (
            f"[+]leaderElection ok\n[+]{OTHER} ok\nhealthz check passed\n"
        )
        assert manager.synced.is_set()
        assert probe("readyz", manager.readyz(), verbose=False).healthy
        assert daemon.synced(NAME, "pods") is None
        catalogue.add(DEPLOYMENT)
        await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle(INTERVAL + SETTLED)
        assert len(await User(cluster).pods()) == 2
        assert manager.controllers.names == [NAME, OTHER]
        assert text_of(manager.healthz()) == (
            f"[+]leaderElection ok\n[+]{NAME} ok\n[+]{OTHER} ok\nhealthz check passed\n"
        )
        manager._refresh()
        assert daemon.synced(NAME, "deployments.apps") == 1
        assert "informer-deployments.apps" in manager.readyz()
    log = daemon.log.getvalue()
    waits = '"Controller waits for resources that the API server lacks"'
    for line in (
        f'{waits} controller="{NAME}" missing="apps/v1/deployments"',
        f'"The API server has the resources now" controller="{NAME}"',
        f'"Starting controller" controller="{NAME}"',
    ):
        assert log.count(line) == 1


class WidgetReconciler(Reconciler[PartialObject]):
    """Notes when it sees each widget first."""

    watches = (For(WIDGETS),)
    seen: ClassVar[dict[str, float]] = {}

    async def reconcile(self, obj: PartialObject) -> Outcome:
        self.seen.setdefault(obj.metadata.name, now())
        return DONE


def build_with_widgets() -> Registry:
    """Return the controllers of this build, and one of a custom resource."""
    widgets = Descriptor(
        "widget-controller",
        "tests.manager.test_waiting_controllers:WidgetReconciler",
        requires=(WIDGETS,),
    )
    return Registry((*this_build().descriptors, widgets))


async def define(cluster: Cluster) -> None:
    given = {"metadata": {"name": "widgets.example.com"}, "spec": spec()}
    definition = given
    assert (await call(cluster, "POST", DEFINITIONS, definition)).status == 201
    path = "/apis/example.com/v1/namespaces/default/widgets"
    made = await call(cluster, "POST", path, b'{"metadata": {"name": "a"}}')
    assert made.status == 201


@pytest.mark.parametrize(
    ("refused", "patience"),
    [(set(), 0.2), ({"customresourcedefinitions"}, INTERVAL + SETTLED)],
)
async def test_a_controller_starts_once_its_resource_is_defined(
    cluster: Cluster, refused: set[str], patience: float
) -> None:
    WidgetReconciler.seen.clear()
    daemon = RefusedDaemon(cluster, set(refused), build=build_with_widgets())
    async with daemon.running("widget-controller", "replicaset") as manager:
        await manager.started.wait()
        await settle(10)
        assert manager.controllers.names == [OTHER]
        daemon.refused.clear()
        await define(cluster)
        defined_at = now()
        await settle(patience)
        assert WidgetReconciler.seen.keys() == {"a"}
        assert WidgetReconciler.seen["a"] - defined_at <= patience
        assert manager.controllers.names == [OTHER, "widget-controller"]


async def test_one_controller_waits_for_its_definition(cluster: Cluster) -> None:
    """It leads meanwhile, as a manager without any controller does."""
    WidgetReconciler.seen.clear()
    daemon = RefusedDaemon(cluster, build=build_with_widgets())
    async with daemon.running("widget-controller") as manager:
        await asyncio.wait_for(manager.started.wait(), 5)
        assert manager.controllers.names == []
        assert probe("readyz", manager.readyz(), verbose=False).healthy
        await settle(10)
        await define(cluster)
        await settle(0.2)
        assert WidgetReconciler.seen.keys() == {"a"}


async def test_a_resource_may_follow_its_definition(cluster: Cluster) -> None:
    """A real API server does so: the manager looks a second time."""
    WidgetReconciler.seen.clear()
    daemon = RefusedDaemon(cluster, build=build_with_widgets())
    async with daemon.running("widget-controller", "replicaset") as manager:
        await manager.started.wait()
        await settle(10)
        daemon.refused.add("v1")  # the discovery of each group
        await define(cluster)
        await settle(0.9)
        daemon.refused.clear()
        await settle(0.3)
        assert WidgetReconciler.seen.keys() == {"a"}


async def test_definitions_are_watched_for_those_who_wait(cluster: Cluster) -> None:
    """Then they cost nothing."""
    opened: list[str] = []
    handle = cluster.server.handle

    async def note(request: Request) -> Any:
        if dict(request.query).get("watch"):
            opened.append(request.path.rpartition("/")[2])
        return await handle(request)

    cluster.server.handle = note  # type: ignore[method-assign]
    watched = {"customresourcedefinitions", "apiservices"}
    async with RefusedDaemon(cluster).running("replicaset") as manager:
        await manager.started.wait()
        assert watched.isdisjoint(opened)
    daemon = RefusedDaemon(cluster, build=build_with_widgets())
    async with daemon.running("widget-controller", "replicaset") as manager:
        await manager.started.wait()
        await settle(10)
        assert watched <= {*opened}
        await define(cluster)
        await settle(5)
        opened.clear()
        await settle(1000)
        assert watched.isdisjoint(opened)


async def test_a_late_unlisted_resource_spoils_no_readiness(cluster: Cluster) -> None:
    """It may be gone again: one of several API servers was newer for a moment."""
    catalogue = cluster.server.catalogue
    catalogue.remove(DEPLOYMENT)
    daemon = RefusedDaemon(cluster)
    async with daemon.running("deployment", "replicaset") as manager:
        await manager.started.wait()
        handle = cluster.server.handle

        async def refuse(request: Request) -> Any:
            if request.path == "/apis/apps/v1/deployments":
                return Response(403, {}, b'{"kind":"Status","code":403}')
            return await handle(request)

        cluster.server.handle = refuse  # type: ignore[method-assign]
        catalogue.add(DEPLOYMENT)
        await settle(100)
        assert probe("readyz", manager.readyz(), verbose=False).healthy
        catalogue.remove(DEPLOYMENT)
        cluster.server.handle = handle  # type: ignore[method-assign]
        await settle(400)
        assert probe("readyz", manager.readyz(), verbose=False).healthy


async def test_a_standby_notices_a_group_that_is_switched_on(cluster: Cluster) -> None:
    catalogue = cluster.server.catalogue
    catalogue.remove(DEPLOYMENT)
    async with leader_and_standby(cluster) as (first, second):
        catalogue.add(DEPLOYMENT)
        await settle(INTERVAL + SETTLED)
        assert second.manager.controllers.names == [NAME, OTHER]
        assert all(each.is_synced for each in second.manager.informers.all())
        await first.stopped()
        await settle(SETTLED)
        await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle(SETTLED)
        assert len(await User(cluster).pods()) == 2


async def test_a_discovery_that_fails_ends_no_look(cluster: Cluster) -> None:
    """The next one finds the resource; and a daemon that still waits can be stopped."""
    catalogue = cluster.server.catalogue
    catalogue.remove(DEPLOYMENT)
    daemon = Daemon(cluster, "a")
    await daemon.manager.started.wait()
    handle, asked = cluster.server.handle, []

    async def fail(request: Request) -> Any:
        if request.path == "/apis/apps/v1":
            asked.append(asyncio.get_running_loop().time())
            return Response(503, {}, b'{"kind":"Status","code":503}')
        return await handle(request)

    cluster.server.handle = fail  # type: ignore[method-assign]
    catalogue.add(DEPLOYMENT)
    await settle(3 * INTERVAL + SETTLED)
    assert len(asked) == 3
    assert daemon.manager.controllers.names == [OTHER]
    cluster.server.handle = handle  # type: ignore[method-assign]
    await settle(INTERVAL)
    assert daemon.manager.controllers.names == [NAME, OTHER]
    await daemon.stopped()
    catalogue.remove(DEPLOYMENT)
    waiting = Daemon(cluster, "b")
    await waiting.manager.started.wait()
    stopped_at = asyncio.get_running_loop().time()
    await waiting.stopped()
    assert asyncio.get_running_loop().time() - stopped_at < SETTLED


async def test_a_failing_group_delays_others_by_ten_seconds(cluster: Cluster) -> None:
    """Its own controller starts once it can be discovered."""
    handle = cluster.server.handle
    broken = True

    async def fail(request: Request) -> Any:
        if broken and request.path == "/apis/batch/v1":
            return Response(503, {}, b'{"kind":"Status","code":503}')
        return await handle(request)

    cluster.server.handle = fail  # type: ignore[method-assign]
    daemon = RefusedDaemon(cluster)
    async with daemon.running("replicaset", "ttl-after-finished") as manager:
        await asyncio.wait_for(manager.started.wait(), 10)
        assert manager.controllers.names == [OTHER]
        broken = False
        await settle(INTERVAL + SETTLED)
        assert manager.controllers.names == [OTHER, "ttl-after-finished-controller"]


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
