"""A node whose pods fail as soon as they exist."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.client.rest.client import DeleteOptions
from controller_manager.client.rest.errors import NotFound
from controller_manager.controllers.apps.daemonset.nodes import target_of
from tests.clusters import EPOCH, Cluster
from tests.controllers.user import User


class Node:
    """Lets the pods that it is asked to fail fail, and makes all others ready."""

    def __init__(self, cluster: Cluster) -> None:
        self.user = User(cluster)
        self.fails: Callable[[Pod], bool] = lambda _: True
        self.reason = "OutOfcpu"
        self.deletes = False
        """True if somebody deletes each failed pod at once."""

        self.created: list[tuple[float, Pod]] = []
        """Each pod that was seen, and the seconds until then."""

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
        began = loop.time()
        while True:
            for each in await self.user.pods():
                if each.metadata.uid not in known:
                    known.add(each.metadata.uid)
                    self.created.append((int(loop.time() - began), each))
                    with suppress(NotFound):
                        await self._see(each)
            await asyncio.sleep(0.1)

    async def _see(self, pod: Pod) -> None:
        name = pod.metadata.name
        if not self.fails(pod):
            await self.user.make_ready(name)
            return
        await self.user.report(name, phase="Failed", reason=self.reason)
        if self.deletes:
            options = DeleteOptions(grace_period_seconds=0)
            await self.user.client.delete(PODS, "default", name, options)

    def of(self, owner: str) -> list[float]:
        """Return the times at which pods of an owner were created."""
        return self._times(lambda pod: pod.metadata.name.rpartition("-")[0], owner)

    def of_pod(self, pod: str) -> list[float]:
        """Return the times at which pods of this name were created."""
        return self._times(lambda each: each.metadata.name, pod)

    def on(self, node: str) -> list[float]:
        """Return the times at which pods for this node were created."""
        return self._times(target_of, node)

    def _times(self, key: Callable[[Pod], str], wanted: str) -> list[float]:
        return [seconds for seconds, pod in self.created if key(pod) == wanted]


class Ticking:
    """A clock that a test moves; its day stands still."""

    seconds = 0.0

    def now(self) -> datetime:
        return EPOCH

    def monotonic(self) -> float:
        return self.seconds
