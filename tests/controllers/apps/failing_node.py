"""A node whose pods fail as soon as they exist."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import datetime

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.client.rest.client import DeleteOptions
from tests.clusters import EPOCH, Cluster
from tests.controllers.user import User


class Node:
    """Lets the pods that it is asked to fail fail, and makes all others ready."""

    def __init__(self, cluster: Cluster) -> None:
        self.user = User(cluster)
        self.fails: Callable[[Pod], bool] = lambda _: True
        self.deletes = False
        self.created: list[tuple[float, str]] = []

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        known: set[str] = set()
        loop = asyncio.get_running_loop()
        while True:
            for each in await self.user.pods():
                if each.metadata.uid in known:
                    continue
                known.add(each.metadata.uid)
                name = each.metadata.name
                self.created.append((int(loop.time()), name))
                if not self.fails(each):
                    await self.user.make_ready(name)
                    continue
                status = {"status": {"phase": "Failed", "reason": "OutOfcpu"}}
                await self.user.client.patch(
                    PODS, "default", name, status, subresource="status"
                )
                if self.deletes:
                    options = DeleteOptions(grace_period_seconds=0)
                    await self.user.client.delete(PODS, "default", name, options)
            await asyncio.sleep(0.1)

    def of(self, owner: str) -> list[float]:
        """Return the times at which pods of an owner were created."""
        names = ((time, name.rpartition("-")[0]) for time, name in self.created)
        return [time for time, name in names if name == owner]

    def of_pod(self, pod: str) -> list[float]:
        """Return the times at which pods of this name were created."""
        return [time for time, name in self.created if name == pod]


class Ticking:
    """A clock that a test moves; its day stands still."""

    seconds = 0.0

    def now(self) -> datetime:
        return EPOCH

    def monotonic(self) -> float:
        return self.seconds
