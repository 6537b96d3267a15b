"""Clusters and managers for tests, in memory and on virtual time."""

import asyncio
import random
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry

from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.transport import Request, Response, Transport
from controller_manager.clock import Clock, LoopClock
from controller_manager.devcluster.admission import WITHOUT_ACCOUNTS
from controller_manager.devcluster.apiserver.negotiation import check_object
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.controlplane import MANAGER, APIServer
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.devcluster.kubelet.nodes import Nodes
from controller_manager.devcluster.registry.core.service_addresses import DEFAULT_RANGE
from controller_manager.devcluster.storage import HISTORY, Storage
from controller_manager.informers.factory import InformerFactory
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import Logger, silent_logger
from controller_manager.observability.metrics.client import (
    InformerCollectors,
    InformerMetrics,
)
from controller_manager.options.config import (
    ClientConfig,
    Config,
    GenericConfig,
    LeaderElectionConfig,
    RateLimit,
    ServingConfig,
)
from controller_manager.options.gates import FeatureGates
from controller_manager.registry import registry as this_build
from controller_manager.version import USER_AGENT
from tests.bound_claims import bind_claims
from tests.streams import PassedTransport

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TOKEN = "test"
NAMESPACES = frozenset(("default", "kube-system"))
"""The namespaces that each cluster has."""


def informer_metrics() -> InformerMetrics:
    return InformerCollectors(CollectorRegistry(), "test").informer("", "v1", "pods")


def factory_of(
    cluster: "Cluster", registry: CollectorRegistry | None = None, **more: Any
) -> InformerFactory:
    given = {"min_resync_period": 100, "logger": silent_logger(), **more}
    metrics = InformerCollectors(registry or CollectorRegistry(), "test")
    return InformerFactory(cluster.client, rng=cluster.rng, metrics=metrics, **given)


ROOT_CA = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n" * 2
"""Two certificates, as many as the real API server had that was recorded."""

WORKLOADS = ("deployment-controller", "replicaset-controller")


def make_config(**generic: object) -> Config:
    """Return a config without rate limits, for one manager that serves nothing.

    It runs the controllers of deployments and replica sets by default.
    """
    return Config(
        client=ClientConfig(limit=RateLimit(qps=0)),
        generic=replace(
            GenericConfig(
                controllers=WORKLOADS,
                leader_election=LeaderElectionConfig(leader_elect=False),
            ),
            **generic,  # type: ignore[arg-type]
        ),
        serving=ServingConfig(port=0),
    )


@dataclass
class Write:
    method: str
    path: str
    status: int
    body: bytes
    answer: bytes = b""


@dataclass
class RecordingTransport(PassedTransport):
    writes: list[Write] = field(default_factory=list)

    async def request(self, request: Request) -> Response:
        answer = await self.inner.request(request)
        if request.method != "GET" and "/events" not in request.path:
            body = request.body or b""
            self.writes.append(
                Write(request.method, request.path, answer.status, body, answer.body)
            )
        return answer


class Cluster:
    def __init__(
        self,
        seed: int = 1,
        history: int | None = None,
        *,
        rbac: bool = False,
        features: FeatureGates | None = None,
        admission_plugins: Collection[str] = WITHOUT_ACCOUNTS,
        epoch: datetime = EPOCH,
        service_cluster_ip_range: str = DEFAULT_RANGE,
    ) -> None:
        self.clock: Clock = LoopClock(epoch)
        self.rng = random.Random(seed)
        self.server = APIServer(
            clock=self.clock,
            rng=self.rng,
            users={TOKEN: User("admin", groups=("system:masters",))},
            storage=Storage(HISTORY if history is None else history),
            rbac=rbac,
            build=this_build(),
            features=features,
            admission_plugins=admission_plugins,
            service_cluster_ip_range=service_cluster_ip_range,
        )
        self.transport = InMemoryTransport(self.server, TOKEN, USER_AGENT)
        self.client = Client(self.transport, self.clock)
        for name in sorted(NAMESPACES):
            self.add_namespace(name)

    def add_namespace(self, name: str) -> None:
        kind = self.server.catalogue.find("", "v1", "namespaces")
        assert kind is not None
        self.server.objects.create(kind, "", {"metadata": {"name": name}})

    def add(self, kind: str, name: str, api: str = "v1", **parts: Any) -> None:
        """Store an object of `parts`, also its status; in "default" if namespaced.

        Its fields are decoded, as those of a request.
        """
        found = self.server.catalogue.of(api, kind)
        assert found is not None
        namespace = "default" if found.namespaced else ""
        given = {"metadata": {"name": name}, **parts}
        obj, _ = check_object(given, found, found.version)
        status = obj.pop("status", None)
        stored = self.server.objects.create(found, namespace, obj)
        if status is not None:
            body = {**stored.obj, "status": {**stored.obj.get("status", {}), **status}}
            self.server.objects.update(found, namespace, name, body, "status")

    @asynccontextmanager
    async def nodes(
        self, *, binds_claims: bool = False, **options: float
    ) -> AsyncGenerator[None, None]:
        """Run nodes while entered; an error of theirs fails the test.

        With `binds_claims`, each claim gets a volume at once, for tests in which no
        controller binds claims.
        """
        settings: dict[str, Any] = {"details": False, **options}
        nodes = Nodes(self.server, self.clock, **settings)
        nodes.register()
        errors: list[BaseException] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, what: errors.append(what["exception"]))
        tasks = [asyncio.create_task(nodes.run())]
        if binds_claims:
            tasks.append(asyncio.create_task(bind_claims(self.server)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            errors += [each for each in ended if isinstance(each, Exception)]
            loop.set_exception_handler(None)
        for error in errors:
            raise error

    @asynccontextmanager
    async def confined_manager(
        self, config: Config | None = None
    ) -> AsyncGenerator[RecordingTransport, None]:
        """Run a manager as kubeadm's user, each controller as its own account.

        Yields the writes of the controllers; the cluster should enforce RBAC.
        """
        self.server.tokens.add("manager", User(MANAGER))
        recording = RecordingTransport(
            InMemoryTransport(self.server, user_agent=USER_AGENT)
        )
        connections = Connections(
            InMemoryTransport(self.server, "manager", USER_AGENT),
            anonymous=recording,
            root_ca=ROOT_CA,
        )
        async with run_manager(
            connections, self.clock, self.rng, config or make_config()
        ):
            yield recording

    @asynccontextmanager
    async def manager(
        self,
        config: Config | None = None,
        transport: Transport | None = None,
        logger: Logger | None = None,
        clock: Clock | None = None,
    ) -> AsyncGenerator[RecordingTransport, None]:
        """Run a manager while entered; yields its writes.

        `clock` is that of the manager's machine, if it differs from the server's.
        """
        recording = RecordingTransport(transport or self.transport)
        async with run_manager(
            Connections(recording, root_ca=ROOT_CA),
            clock or self.clock,
            self.rng,
            config or make_config(),
            logger,
        ):
            yield recording


def manager_of(
    cluster: Cluster,
    config: Config | None = None,
    connections: Connections | None = None,
    **more: Any,
) -> ControllerManager:
    """Return a silent manager of this build, unless told otherwise."""
    given: dict[str, Any] = {
        "clock": cluster.clock,
        "rng": random.Random(1),
        "logger": silent_logger(),
        "build": this_build(),
        **more,
    }
    connections = connections or Connections(cluster.transport)
    return ControllerManager(config or make_config(), connections, **given)


@asynccontextmanager
async def run_manager(
    connections: Connections,
    clock: Clock,
    rng: random.Random,
    config: Config,
    logger: Logger | None = None,
    registry: CollectorRegistry | None = None,
) -> AsyncGenerator[ControllerManager, None]:
    manager = ControllerManager(
        config,
        connections,
        clock=clock,
        rng=rng,
        logger=logger or silent_logger(),
        registry=registry,
        build=this_build(),
    )
    async with running_manager(manager):
        yield manager


@asynccontextmanager
async def running_manager(manager: ControllerManager) -> AsyncGenerator[None, None]:
    """Run a manager while entered; it has started."""
    stop = asyncio.Event()
    running = asyncio.create_task(manager.run(stop))
    started = asyncio.create_task(manager.started.wait())
    await asyncio.wait((running, started), return_when=asyncio.FIRST_COMPLETED)
    started.cancel()
    if running.done():
        running.result()
    try:
        yield
    finally:
        stop.set()
        await running
