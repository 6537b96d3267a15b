"""The metric of stuck rollouts by their root cause."""

import io
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.apps.v1 import (
    DAEMON_SETS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    Deployment,
    DeploymentCondition,
    DeploymentStatus,
)
from controller_manager.api.meta import AnyResource, ObjectMeta
from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.request import ServerClock
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver.security import User as Named
from controller_manager.devcluster.controlplane import MANAGER
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.manager.stuck_rollouts import StuckRollouts
from controller_manager.observability.logs import make_logger, silent_logger
from controller_manager.options.config import Config
from controller_manager.runtime.registry import RootCause
from tests.clusters import ROOT_CA, Cluster, make_config, run_manager
from tests.controllers.builders import deployment_json
from tests.controllers.user import User, settle
from tests.streams import PassedTransport

pytestmark = pytest.mark.looptime

CONTROLLERS = (
    "daemonset-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
)
BROKEN = {"spec": {"containers": [{"name": "app", "image": "x/broken:v1"}]}}
MENDED = {"spec": {"containers": [{"name": "app", "image": "nginx:1.28"}]}}


@dataclass
class Refusing(PassedTransport):
    words: list[str] = field(default_factory=list)
    reads: int = 0

    async def request(self, request: Request) -> Response:
        self.reads += request.method == "GET"
        if any(each in request.path for each in self.words):
            return Response(HTTPStatus.FORBIDDEN, {}, b'{"kind": "Status"}')
        return await self.inner.request(request)


@dataclass
class Running:
    transport: Refusing
    registry: CollectorRegistry
    log: io.StringIO

    @property
    def stuck(self) -> Mapping[tuple[str, str], float]:
        return {
            (each.labels["cause"], each.labels["kind"]): each.value
            for family in self.registry.collect()
            for each in family.samples
            if each.name == "stuck_rollouts"
        }


@asynccontextmanager
async def running(
    cluster: Cluster, config: Config | None = None
) -> AsyncGenerator[Running, None]:
    cluster.server.tokens.add("manager", Named(MANAGER))
    transport = Refusing(InMemoryTransport(cluster.server, "manager"))
    log, registry = io.StringIO(), CollectorRegistry()
    async with run_manager(
        Connections(
            transport, anonymous=InMemoryTransport(cluster.server), root_ca=ROOT_CA
        ),
        cluster.clock,
        random.Random(7),
        config or make_config(controllers=CONTROLLERS),
        make_logger(stream=log),
        registry,
    ):
        yield Running(transport, registry, log)


def deployment(name: str, template: Mapping[str, Any] | None = None) -> Any:
    """Return a deployment whose rollout has a minute to get on."""
    body = deployment_json(name, replicas=1)
    body["spec"]["progressDeadlineSeconds"] = 60
    body["spec"]["template"]["spec"] |= (template or {}).get("spec", {})
    return body


def workload(kind: str, name: str) -> Any:
    """Return an object like a deployment of another kind, with a broken image."""
    body = deployment(name, BROKEN)
    spec = {each: body["spec"][each] for each in ("selector", "template")}
    return {**body, "kind": kind, "spec": spec}


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster(rbac=True)


async def test_stuck_rollouts_are_counted_by_cause(cluster: Cluster) -> None:
    user = User(cluster)
    async with cluster.nodes(details=True), running(cluster) as manager:
        await user.create(DEPLOYMENTS, deployment("good"))
        await user.create(DEPLOYMENTS, deployment("first", BROKEN))
        await user.create(DEPLOYMENTS, deployment("second", BROKEN))
        elsewhere = {"spec": {"nodeSelector": {"disk": "gold"}}}
        await user.create(DEPLOYMENTS, deployment("third", elsewhere))
        await user.create(STATEFUL_SETS, workload("StatefulSet", "db"))
        await user.create(DAEMON_SETS, workload("DaemonSet", "agent"))
        await settle(190)
        assert manager.stuck == {
            ("ImagePull", "DaemonSet"): 1,
            ("ImagePull", "Deployment"): 2,
            ("ImagePull", "StatefulSet"): 1,
            ("Unschedulable", "Deployment"): 1,
        }
        await user.patch(DEPLOYMENTS, "first", {"spec": {"template": MENDED}})
        await user.patch(DAEMON_SETS, "agent", {"spec": {"template": MENDED}})
        await settle(190)
        assert manager.stuck == {
            ("ImagePull", "Deployment"): 1,
            ("ImagePull", "StatefulSet"): 1,
            ("Unschedulable", "Deployment"): 1,
        }
        await cluster.client.delete(DEPLOYMENTS, "default", "second")
        await cluster.client.delete(DEPLOYMENTS, "default", "third")
        await cluster.client.delete(STATEFUL_SETS, "default", "db")
        await settle(70)
        assert manager.stuck == {}
        assert "cannot be read" not in manager.log.getvalue()


async def test_an_unread_cause_is_unknown_and_said_once(cluster: Cluster) -> None:
    user = User(cluster)
    async with cluster.nodes(details=True), running(cluster) as manager:
        await user.create(DEPLOYMENTS, deployment("web", BROKEN))
        await settle(100)
        manager.transport.words = ["/pods"]
        await settle(300)
        assert manager.stuck == {("Unknown", "Deployment"): 1}
        assert manager.log.getvalue().count("cannot be read") == 1
        manager.transport.words = ["/deployments"]
        await settle(120)
        assert manager.stuck == {("Unknown", "Deployment"): 1}
        manager.transport.words = []
        await settle(70)
        assert manager.stuck == {("ImagePull", "Deployment"): 1}


async def test_a_disabled_metric_costs_no_reads(cluster: Cluster) -> None:
    config = replace(make_config(), disabled_metrics=("stuck_rollouts",))
    user = User(cluster)
    async with cluster.nodes(details=True), running(cluster, config) as manager:
        await user.create(DEPLOYMENTS, deployment("web", BROKEN))
        await settle(120)
        before = manager.transport.reads
        await settle(240)
        assert manager.stuck == {}
        assert manager.transport.reads == before


class _Cache:
    """An informer's cache of many stuck deployments."""

    resource: AnyResource = DEPLOYMENTS
    is_synced = True

    def __init__(self, number: int) -> None:
        condition = DeploymentCondition(
            type="Progressing", status="False", reason="ProgressDeadlineExceeded"
        )
        status = DeploymentStatus(conditions=(condition,))
        self._objects = {
            f"shop/{each}": Deployment(
                metadata=ObjectMeta(name=str(each), namespace="shop", uid=str(each)),
                status=status,
            )
            for each in range(number)
        }
        self.store = self

    def keys(self) -> list[str]:
        return list(self._objects)

    def get(self, key: str) -> Deployment | None:
        return self._objects.get(key)


class _Counting:
    """Finds one cause for all; counts its calls by name."""

    def __init__(self, client: Client, *, fails: bool = False) -> None:
        self.client = client
        self.names: list[str] = []
        self._fails = fails

    async def __call__(
        self,
        client: Client,
        clock: ServerClock,
        resource: AnyResource,
        namespace: str,
        name: str,
    ) -> RootCause:
        assert (resource, namespace) == (DEPLOYMENTS, "shop")
        assert client is self.client
        assert clock.now() is not None
        self.names.append(name)
        if self._fails:
            raise ValueError(name)
        return RootCause(is_stuck=True, code="QuotaFull")


def counting(
    cluster: Cluster, number: int, find: _Counting, shown: list[Any]
) -> tuple[StuckRollouts, list[str]]:
    """Return a counter for many stuck deployments, and the parts of its defects."""
    defects: list[str] = []
    caches: list[Any] = [_Cache(number)]
    counter = StuckRollouts(
        lambda: caches,
        find,
        cluster.client,
        ServerClock(cluster.clock),
        show=lambda numbers: shown.append(dict(numbers)),
        count_defect=defects.append,
        logger=silent_logger(),
    )
    return counter, defects


@pytest.mark.slow
async def test_stuck_rollouts_are_explained_in_turns(cluster: Cluster) -> None:
    shown: list[Any] = []
    find = _Counting(cluster.client)
    counter, _ = counting(cluster, 10_000, find, shown)
    await counter.turn()
    await counter.turn()
    assert shown == [
        {("QuotaFull", "Deployment"): 20, ("Unknown", "Deployment"): 9_980},
        {("QuotaFull", "Deployment"): 35, ("Unknown", "Deployment"): 9_965},
    ]
    # The second turn explains new ones, and the oldest again.
    assert len(find.names) == 40
    assert find.names[35:] == find.names[:5]
    for _ in range(78):
        await counter.turn()
    assert len(find.names) == 80 * 20
    assert len(counter._seen) == 1_000
    assert sum(shown[-1].values()) == 10_000


async def test_a_defect_leaves_the_cause_unknown(cluster: Cluster) -> None:
    shown: list[Any] = []
    counter, defects = counting(
        cluster, 3, _Counting(cluster.client, fails=True), shown
    )
    await counter.turn()
    assert shown == [{("Unknown", "Deployment"): 3}]
    assert defects == ["stuck-rollouts"] * 3
