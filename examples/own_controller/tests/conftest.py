"""A cluster in memory, and managers with this controller."""

import asyncio
import gc
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

import pytest
import pytest_asyncio
from kubernetes_asyncio.client import CoreV1Api, V1ConfigMap, V1ObjectMeta
from prometheus_client import CollectorRegistry
from shared_config import CONTROLLER

from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import Client
from controller_manager.clock import LoopClock
from controller_manager.devcluster.cluster import ADMIN
from controller_manager.devcluster.controlplane import APIServer
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import silent_logger
from controller_manager.options.parsing import parse
from controller_manager.registry import registry
from controller_manager.runtime.registry import Registry

NAME = "shared-config"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TOKEN = "admin"


@pytest.fixture
def builds() -> Registry:
    """Return the controllers of controller-manager, and this one."""
    return build()


def build() -> Registry:
    """Return the registry as it is once this package is installed."""
    others = (each for each in registry().descriptors if each.name != CONTROLLER.name)
    return Registry((*others, CONTROLLER))


@dataclass
class Cluster:
    """An API server in memory, used by its administrator with kubernetes_asyncio."""

    rbac: bool = False
    clock: LoopClock = field(default_factory=lambda: LoopClock(EPOCH))
    metrics: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        users = {TOKEN: ADMIN}
        rng = random.Random(1)
        self.server = APIServer(
            clock=self.clock, rng=rng, users=users, rbac=self.rbac, build=registry()
        )
        self.transport = InMemoryTransport(self.server, TOKEN)
        self.client = Client(self.transport, self.clock)
        self.core: Any = CoreV1Api(self.client.api_client())

    async def add_namespaces(self, *names: str) -> None:
        for name in names:
            await self.core.create_namespace({"metadata": {"name": name}})

    async def end_namespace(self, name: str) -> None:
        """Ask for a namespace's deletion; no controller carries it out here."""
        await self.core.delete_namespace(name)

    async def create(self, namespace: str, **data: str) -> None:
        """Create the config map in a namespace."""
        body = V1ConfigMap(metadata=V1ObjectMeta(name=NAME), data=data)
        await self.core.create_namespaced_config_map(namespace, body)

    async def change(self, namespace: str, patch: Any) -> None:
        """Patch the config map of a namespace."""
        await self.core.patch_namespaced_config_map(NAME, namespace, patch)

    async def maps(self) -> dict[str, V1ConfigMap]:
        """Return the config maps of that name, by namespace."""
        page = await self.core.list_config_map_for_all_namespaces(
            field_selector=f"metadata.name={NAME}"
        )
        return {each.metadata.namespace: each for each in page.items}

    async def data(self) -> dict[str, Any]:
        """Return their data."""
        return {name: each.data for name, each in (await self.maps()).items()}

    @asynccontextmanager
    async def manager(
        self, *flags: str, confined: bool = False
    ) -> AsyncGenerator[ControllerManager, None]:
        """Run a manager of these flags while entered, its controllers started.

        In a `confined` one each controller is a service account of its own.
        """
        given = {"controllers": ["shared-config"], "leader-elect": ["false"]}
        given |= {"secure-port": ["0"], "kube-api-qps": ["-1"]}
        for flag in flags:
            name, _, value = flag.removeprefix("--").partition("=")
            given[name] = [value]
        everybody = build()
        anonymous = InMemoryTransport(self.server) if confined else None
        manager = ControllerManager(
            parse(given, everybody),
            Connections(self.transport, anonymous, root_ca="PEM"),
            clock=self.clock,
            rng=random.Random(1),
            logger=silent_logger(),
            registry=self.metrics,
            build=everybody,
        )
        stop = asyncio.Event()
        running = asyncio.create_task(manager.run(stop))
        started = asyncio.create_task(manager.started.wait())
        await asyncio.wait((running, started), return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        try:
            yield manager
        finally:
            stop.set()
            await running


@pytest_asyncio.fixture(autouse=True)
async def _thaw() -> AsyncGenerator[None, None]:
    """Undo the manager's gc.freeze, so that tests do not pile up garbage."""
    yield
    gc.unfreeze()


class MakeCluster(Protocol):
    async def __call__(self, *, rbac: bool = False) -> Cluster: ...


@pytest.fixture
def make_cluster() -> MakeCluster:
    """Return what makes a cluster of three namespaces."""

    async def make(*, rbac: bool = False) -> Cluster:
        made = Cluster(rbac)
        await made.add_namespaces("kube-system", "default", "shop")
        return made

    return make


@pytest_asyncio.fixture
async def cluster(make_cluster: MakeCluster) -> Cluster:
    """Return such a cluster, where everybody may do everything."""
    return await make_cluster()
