"""Candidates for the lease, a faulty transport, and the API server's part."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from controller_manager.api.coordination.v1 import LEASES, Lease, LeaseSpec
from controller_manager.api.coordination.v1beta1 import LEASE_CANDIDATES, LeaseCandidate
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.scalars import format_micro_time
from controller_manager.client.events.recorder import EventBroadcaster
from controller_manager.client.leadership.leader_election import LeaderElector
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import NotFound
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.clock import Clock
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.options.gates import COORDINATED_ELECTION, FeatureGates
from tests.clusters import Cluster
from tests.streams import PassedTransport

NAME = "kube-controller-manager"
NAMESPACE = "kube-system"
COORDINATED = FeatureGates({COORDINATED_ELECTION.name: True})
STRATEGY = "OldestEmulationVersion"
SECONDS = 5
"""The duration of a lease that an API server has written (1.36)."""
CONFIG = LeaderElectionConfig()
Fault = Callable[[Request], Awaitable[Response | None]]


@dataclass
class Metrics:
    status: list[bool] = field(default_factory=list)
    slow: int = 0

    def set_leading(self, *, leading: bool) -> None:
        self.status.append(leading)

    def slow_path(self) -> None:
        self.slow += 1


@dataclass
class Faulty(PassedTransport):
    """Requests are passed on if the fault has no answer."""

    fault: Fault | None = None

    async def request(self, request: Request) -> Response:
        async with asyncio.timeout(request.timeout):
            if self.fault and (answer := await self.fault(request)) is not None:
                return answer
        return await super().request(request)

    async def stream(self, request: Request) -> Stream:
        if self.fault:
            await self.fault(request)
        return await super().stream(request)


class Candidate:
    def __init__(
        self,
        cluster: Cluster,
        identity: str,
        *,
        clock: Clock | None = None,
        watches: bool = True,
        config: LeaderElectionConfig = CONFIG,
        kind: type[LeaderElector] = LeaderElector,
    ) -> None:
        self.transport = Faulty(cluster.transport)
        self.metrics = Metrics()
        self.clock = clock or cluster.clock
        self._watches = watches
        self.hangs = False
        """True if the controllers of the candidate hang."""
        self.watching: asyncio.Task[None] | None = None
        client = Client(self.transport, self.clock)
        self._broadcaster = EventBroadcaster(
            client, NAME, clock=self.clock, rng=random.Random(1), logger=silent_logger()
        )
        self.elector = kind(
            client,
            config,
            identity,
            clock=self.clock,
            rng=random.Random(identity),
            recorder=self._broadcaster,
            metrics=self.metrics,
            logger=silent_logger(),
            may_lead=lambda: not self.hangs,
        )

        self._tasks: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["Candidate", None]:
        self._start(self._broadcaster.run())
        if self._watches:
            self.watching = self._start(self.elector.watch())
        try:
            yield self
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def acquiring(self) -> asyncio.Task[None]:
        return self._start(self.elector.acquire())

    def renewing(self) -> asyncio.Task[None]:
        return self._start(self.elector.renew())

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._tasks.append(asyncio.create_task(work))
        return self._tasks[-1]


def now_of(cluster: Cluster) -> str:
    return format_micro_time(cluster.clock.now())


async def lease_of(cluster: Cluster) -> LeaseSpec | None:
    try:
        return (await cluster.client.get(LEASES, NAMESPACE, NAME)).spec
    except NotFound:
        return None


async def elect(cluster: Cluster, holder: str) -> None:
    spec = LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=SECONDS,
        renew_time=now_of(cluster),
        strategy=STRATEGY,
    )
    metadata = ObjectMeta(name=NAME, namespace=NAMESPACE)
    try:
        found = await cluster.client.get(LEASES, NAMESPACE, NAME)
    except NotFound:
        await cluster.client.create(LEASES, Lease(metadata=metadata, spec=spec))
        return
    await cluster.client.update(LEASES, replace(found, spec=spec))


async def prefer(cluster: Cluster, holder: str) -> None:
    patch = {"spec": {"preferredHolder": holder}}
    await cluster.client.patch(LEASES, NAMESPACE, NAME, patch)


async def ping(cluster: Cluster, name: str, time: str = "") -> None:
    patch = {"spec": {"pingTime": time or now_of(cluster)}}
    await cluster.client.patch(LEASE_CANDIDATES, NAMESPACE, name, patch)


async def candidates(cluster: Cluster) -> list[LeaseCandidate]:
    page = await cluster.client.list_page(LEASE_CANDIDATES, NAMESPACE)
    return list(page.items)
