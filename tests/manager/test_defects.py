"""An unexpected exception ends one part at most, and never keeps the lease."""

import asyncio
import io
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import force_setattr
from prometheus_client import CollectorRegistry

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import KubeObject, labels_of
from controller_manager.client.builder import Connections
from controller_manager.informers import transforms
from controller_manager.informers.reflector import Reflector
from controller_manager.informers.store import BY_CONTROLLER
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import make_logger
from controller_manager.options.config import Config, LeaderElectionConfig
from controller_manager.runtime.worker import Workers
from controller_manager.serving.health import probe
from tests.clusters import ROOT_CA, Cluster, make_config, manager_of, running_manager
from tests.controllers.builders import deployment_json, replica_set_json
from tests.controllers.user import User
from tests.manager.daemons import ELECTING, Daemon

pytestmark = pytest.mark.looptime


def fail(*_: object) -> Any:
    msg = "no such code"
    raise LookupError(msg)


async def holder(cluster: Cluster) -> str:
    lease = await cluster.client.get(LEASES, "kube-system", "kube-controller-manager")
    return lease.spec.holder_identity or ""


async def test_a_manager_that_ends_by_a_defect_releases_its_lease(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Daemon(cluster, "first")
    monkeypatch.setattr(first.manager._caches, "_report_sync", defect_after(30))
    await first.manager.started.wait()
    second = Daemon(cluster, "second")
    await second.manager.synced.wait()
    await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=3))
    with pytest.RaisesGroup(LookupError, flatten_subgroups=True):
        await first.running
    ended = asyncio.get_running_loop().time()
    await second.manager.started.wait()
    assert asyncio.get_running_loop().time() - ended < 0.5
    assert [when for when, _ in first.way.writes if when > ended] == []
    await second.stopped()


def defect_after(seconds: float) -> Callable[..., Any]:
    async def defect(*_: object) -> None:
        await asyncio.sleep(seconds)
        fail()

    return defect


async def test_a_manager_that_is_cancelled_releases_its_lease(cluster: Cluster) -> None:
    """As one that a program runs in its own event loop may be."""
    daemon = Daemon(cluster, "first")
    await daemon.manager.started.wait()
    assert await holder(cluster)
    daemon.running.cancel()
    await asyncio.gather(daemon.running, return_exceptions=True)
    assert not await holder(cluster)


async def test_a_controller_that_ends_by_a_defect_runs_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Workers.run
    failures = [LookupError("no such code")] * 3

    async def fail_first(self: Workers) -> None:
        if self.name == "deployment-controller" and failures:
            await asyncio.sleep(1)
            raise failures.pop()
        await run(self)

    monkeypatch.setattr(Workers, "run", fail_first)
    registry, log = CollectorRegistry(), io.StringIO()
    async with running(cluster, registry, log) as manager:
        await asyncio.sleep(2.5)
        health = probe("healthz", manager.healthz(), verbose=True)
        assert health.text == (
            "[+]leaderElection ok\n[+]deployment-controller ok\n"
            "[+]replicaset-controller ok\nhealthz check passed\n"
        )
        await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=3))
        await asyncio.sleep(20)
        assert len(await User(cluster).pods()) == 3
        assert manager.elector is not None
        assert manager.elector.seconds_left() > 0
    counted = registry.get_sample_value(
        "unexpected_errors_total", {"part": "deployment-controller"}
    )
    assert counted == 3
    assert "no such code" in log.getvalue()


@asynccontextmanager
async def running(
    cluster: Cluster,
    registry: CollectorRegistry,
    log: io.StringIO,
    config: Config = ELECTING,
) -> AsyncGenerator[ControllerManager, None]:
    manager = manager_of(
        cluster,
        config,
        Connections(cluster.transport, root_ca=ROOT_CA),
        logger=make_logger(stream=log),
        registry=registry,
    )
    async with running_manager(manager):
        yield manager


async def test_objects_that_break_the_transform_are_reconciled_like_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    transform_for = transforms.transform_for

    def breaking(resource: Any, reads: Any) -> Any:
        transform = transform_for(resource, reads)

        def transform_most(obj: Any) -> None:
            if isinstance(obj, Pod):
                fail()
            if transform is not None:
                transform(obj)

        return transform_most

    monkeypatch.setattr("controller_manager.informers.factory.transform_for", breaking)
    registry, log = CollectorRegistry(), io.StringIO()
    async with cluster.nodes(), running(cluster, registry, log):
        await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=3))
        await asyncio.sleep(60)
        (deployment,) = (await cluster.client.list_page(DEPLOYMENTS)).items
        assert deployment.status.available_replicas == 3
        assert len(await User(cluster).pods()) == 3
        labels = {
            "group": "",
            "name": "kube-controller-manager",
            "resource": "pods",
            "version": "v1",
            "part": "transform",
        }
        counted = registry.get_sample_value("informer_unexpected_errors_total", labels)
        assert counted is not None
        assert counted >= 3


async def test_pods_that_no_cache_shows_are_made_once(cluster: Cluster) -> None:
    """The index of their owners breaks for each of them, also after a restart.

    Other replica sets get their pods.
    """
    function = BY_CONTROLLER.function

    def values(obj: KubeObject) -> Iterable[str]:
        return fail() if "odd" in labels_of(obj) else function(obj)

    config = make_config(
        controllers=("replicaset",), leader_election=LeaderElectionConfig()
    )
    registry, log = CollectorRegistry(), io.StringIO()
    force_setattr(BY_CONTROLLER, "function", values)
    try:
        async with running(cluster, registry, log, config):
            odd = replica_set_json("odd", 3)
            odd["spec"]["template"]["metadata"]["labels"]["odd"] = "1"
            await User(cluster).create(REPLICASETS, odd)
            await asyncio.sleep(600)
            assert len(await User(cluster).pods()) == 3
        async with running(cluster, CollectorRegistry(), log, config):
            await User(cluster).create(REPLICASETS, replica_set_json("even", 2))
            await asyncio.sleep(600)
            names = sorted(each.metadata.name for each in await User(cluster).pods())
    finally:
        force_setattr(BY_CONTROLLER, "function", function)
    owners = [name.rpartition("-")[0] for name in names]
    assert owners == ["even"] * 2 + ["odd"] * 3


async def test_a_reflector_with_a_defect_stops_no_controller(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caches of the other resources go on."""
    step = Reflector._step

    async def fail_for_config_maps(self: Reflector[Any]) -> bool:
        if self._name == "configmaps":
            fail()
        return await step(self)

    monkeypatch.setattr(Reflector, "_step", fail_for_config_maps)
    config = make_config(
        controllers=("deployment", "replicaset", "root-ca-cert-publisher")
    )
    registry, log = CollectorRegistry(), io.StringIO()
    async with running(cluster, registry, log, config):
        await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=3))
        await asyncio.sleep(20)
        assert len(await User(cluster).pods()) == 3
