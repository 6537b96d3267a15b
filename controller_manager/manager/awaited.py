"""Controllers that wait for resources which the API server lacked at the start."""

import asyncio
from typing import Final

from controller_manager.manager.caches import CacheGroup
from controller_manager.manager.controllers import ControllerGroup
from controller_manager.manager.runnable import Lifetime, Runnable
from controller_manager.manager.startup import Prepared, StartUp
from controller_manager.observability.logs import Logger

_INTERVAL: Final = 30.0
"""Seconds between two looks for missing resources."""


class AwaitedControllers(Runnable):
    """Looks for missing resources, and makes controllers available that need them.

    A group may be enabled later, an API server be upgraded, or a load balancer may
    have let an older API server answer. A standby looks, too. A controller that has
    become available runs until the end, even if its resources are removed again.
    Upstream decides at the start, and for good.
    """

    def __init__(
        self,
        startup: StartUp,
        caches: CacheGroup,
        controllers: ControllerGroup,
        logger: Logger,
    ) -> None:
        """Start without controllers."""
        self._startup = startup
        self._caches = caches
        self._controllers = controllers
        self._logger = logger
        self._awaited: list[Prepared] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, prepared: Prepared) -> None:
        """Add a controller whose resources are missing."""
        self._awaited.append(prepared)

    async def run(self, life: Lifetime) -> None:
        """Look again and again, until no controller waits any more."""
        if self._awaited:
            self._task = life.tasks.create_task(self._look(), name="missing resources")

    async def _look(self) -> None:
        while self._awaited:
            await asyncio.sleep(_INTERVAL)
            awaited, self._awaited = self._awaited, []
            missing = await self._startup.missing(each.descriptor for each in awaited)
            for each in awaited:
                if missing.lacking[each.descriptor.name]:
                    self._awaited.append(each)
                else:
                    self._make_available(each)

    def _make_available(self, found: Prepared) -> None:
        name = found.descriptor.name
        self._logger.info("The API server has the resources now", controller=name)
        self._caches.add(name, found.informers)
        found.informers.start()
        self._controllers[name].available.set()

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
