"""Helpers of election tests: a candidate for the lease, and a faulty transport."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from controller_manager.client.events.recorder import EventBroadcaster
from controller_manager.client.leadership.leader_election import LeaderElector
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.clock import Clock
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import LeaderElectionConfig
from tests.clusters import Cluster

NAME = "kube-controller-manager"
CONFIG = LeaderElectionConfig()


@dataclass
class Metrics:
    status: list[bool] = field(default_factory=list)
    slow: int = 0

    def set_leading(self, *, leading: bool) -> None:
        self.status.append(leading)

    def slow_path(self) -> None:
        self.slow += 1


@dataclass
class Faulty:
    cluster: Cluster
    fault: Callable[[Request], Awaitable[Response | None]] | None = None

    @property
    def host(self) -> str:
        return "faulty"

    async def request(self, request: Request) -> Response:
        async with asyncio.timeout(request.timeout):
            if self.fault and (answer := await self.fault(request)) is not None:
                return answer
        return await self.cluster.transport.request(request)

    async def stream(self, request: Request) -> Stream:
        if self.fault:
            await self.fault(request)
        return await self.cluster.transport.stream(request)

    async def close(self) -> None:
        pass


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
        self.transport = Faulty(cluster)
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

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["Candidate", None]:
        tasks = [asyncio.create_task(self._broadcaster.run())]
        if self._watches:
            self.watching = asyncio.create_task(self.elector.watch())
            tasks.append(self.watching)
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
