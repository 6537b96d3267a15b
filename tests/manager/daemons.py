"""Managers for tests; each runs as a process would."""

import asyncio
import io
import random
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from prometheus_client import CollectorRegistry

from controller_manager.api.coordination.v1 import LEASES, Lease, LeaseSpec
from controller_manager.api.meta import ObjectMeta
from controller_manager.client.builder import Connections
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.manager.manager import ControllerManager
from controller_manager.manager.permissions import permissions_by_purpose
from controller_manager.observability.logs import make_logger
from controller_manager.options.config import Config, LeaderElectionConfig
from controller_manager.registry import registry as this_build
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import Permission
from controller_manager.runtime.registry import Registry
from tests.clusters import Cluster, make_config, manager_of, running_manager
from tests.controllers.user import settle
from tests.streams import PassedStream

ELECTING = make_config(leader_election=LeaderElectionConfig())
REFUSAL = b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no jobs here"}'


def manager_permissions(
    descriptors: Iterable[Descriptor], election: LeaderElectionConfig, **more: Any
) -> tuple[Permission, ...]:
    """Return the permissions that a manager needs, for any purpose."""
    by_purpose = permissions_by_purpose(descriptors, election, **more)
    return tuple(chain.from_iterable(by_purpose.values()))


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Way:
    """A manager's transport: a test can cut it, and it records requests."""

    cluster: Cluster
    hangs: bool = False
    is_gone: bool = False
    """True if its process has been killed, so that nothing is sent any more."""

    writes: list[tuple[float, str]] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    flows: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.flows.set()

    @property
    def host(self) -> str:
        return "way"

    async def request(self, request: Request) -> Response:
        if self.is_gone:
            msg = f"{request.path}: the process has ended"
            raise TransportError(msg)
        if self.hangs:
            await asyncio.sleep(min(request.timeout, 1e6))
            msg = f"{request.path}: no answer"
            raise TransportError(msg)
        kind = request.path.rpartition("/")[2]
        if request.method == "GET":
            self.reads.append(kind)
        elif "/lease" not in request.path:  # neither leases nor candidates
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
class _Held(PassedStream):
    """A watch of pods that shows no event while a test holds it."""

    way: Way

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self.inner.chunks()) as chunks:
            async for chunk in chunks:
                await self.way.flows.wait()
                yield chunk


class Daemon:
    def __init__(self, cluster: Cluster, name: str, config: Config = ELECTING) -> None:
        self.way = Way(cluster)
        self.manager = manager_of(
            cluster, config, Connections(self.way), rng=random.Random(name)
        )
        self.stop = asyncio.Event()
        self.running = asyncio.create_task(self.manager.run(self.stop))

    async def stopped(self) -> None:
        self.stop.set()
        await self.running

    async def killed(self) -> None:
        """End it as SIGKILL does: immediately, without a release of the lease."""
        self.way.is_gone = True
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


@dataclass
class RefusedDaemon:
    """A manager, on a cluster that refuses to list some resources."""

    cluster: Cluster
    refused: set[str] = field(default_factory=set)
    log: io.StringIO = field(default_factory=io.StringIO)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    build: Registry = field(default_factory=this_build)

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
        manager = manager_of(
            self.cluster,
            make_config(
                controllers=controllers,
                leader_election=LeaderElectionConfig(leader_elect=elects),
            ),
            Connections(self.cluster.transport, root_ca="PEM"),
            logger=make_logger(stream=self.log),
            build=self.build,
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


async def take_over_from(
    cluster: Cluster, former: str, config: Config, root_ca: str = ""
) -> tuple[ControllerManager, list[str]]:
    """Let a manager take the lease over from `former`, and stop it.

    Returns it, and the lines of its log about the takeover.
    """
    held = Lease(
        metadata=ObjectMeta(name="kube-controller-manager", namespace="kube-system"),
        spec=LeaseSpec(holder_identity=former, lease_duration_seconds=15),
    )
    await cluster.client.create(LEASES, held)
    log = io.StringIO()
    manager = manager_of(
        cluster,
        config,
        Connections(cluster.transport, root_ca=root_ca),
        logger=make_logger(stream=log),
    )
    async with running_manager(manager):
        pass
    lines = log.getvalue().splitlines()
    return manager, [line for line in lines if "Took the lease over" in line]
