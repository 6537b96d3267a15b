"""Controllers that wait for resources which the API server lacked at the start."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from controller_manager.api.meta import PartialObject, Resource
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import (
    APIError,
    ProtocolError,
    TransportError,
)
from controller_manager.client.rest.serializer import Bookmark
from controller_manager.control.all_resources import ESTABLISHING
from controller_manager.observability.logs import Logger

from .caches import CacheGroup
from .controllers import ControllerGroup
from .runnable import Lifetime, Runnable
from .startup import Prepared, StartUp

_INTERVAL: Final = 30.0
"""Seconds between two looks for missing resources, unless a definition changes."""

_DEFINITIONS: Final = tuple(
    Resource(
        group,
        "v1",
        plural,
        kind,
        PartialObject,
        namespaced=False,
        metadata_only=True,
    )
    for group, plural, kind in (
        (
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "CustomResourceDefinition",
        ),
        ("apiregistration.k8s.io", "apiservices", "APIService"),
    )
)
"""The objects whose changes change what the API server serves."""


@dataclass(eq=False)
class WaitingControllers(Runnable):
    """Looks for missing resources, and makes controllers available that need them.

    A definition may be created later, a group be enabled, an API server be upgraded, or
    a load balancer may have let an older API server answer. Changes of definitions are
    watched; without the permission for that, and for all else, it looks every half
    minute. A standby looks, too. A controller that has become available runs until the
    end, even if its resources are removed again. Upstream decides at the start, and for
    good.
    """

    startup: StartUp
    caches: CacheGroup
    controllers: ControllerGroup
    client: Client
    logger: Logger
    _awaited: list[Prepared] = field(init=False, default_factory=list)
    _changed: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _tasks: list[asyncio.Task[None]] = field(init=False, default_factory=list)

    def add(self, prepared: Prepared) -> None:
        """Add a controller whose resources are missing."""
        self._awaited.append(prepared)

    async def run(self, life: Lifetime) -> None:
        """Look again and again, until no controller waits any more."""
        if not self._awaited:
            return
        self._tasks = [
            life.tasks.create_task(self._watch(each), name=f"watch {each.plural}")
            for each in _DEFINITIONS
        ]
        looking = life.tasks.create_task(self._wait(), name="missing resources")
        self._tasks.append(looking)

    async def _wait(self) -> None:
        while self._awaited:
            if await self._has_changed():
                await self._look()
                # A resource is served a moment after its definition is established.
                await asyncio.sleep(ESTABLISHING)
            await self._look()
        await self.stop()

    async def _has_changed(self) -> bool:
        """Wait for a change of a definition, for the interval at most."""
        try:
            async with asyncio.timeout(_INTERVAL):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    async def _watch(self, definitions: Resource[PartialObject]) -> None:
        """Note each change of some definitions, for ever.

        A watch without a version begins with all of them, so no change is missed.
        """
        while True:
            pause = _INTERVAL
            try:
                async with aclosing(self.client.watch(definitions)) as batches:
                    async for batch in batches:
                        pause = ESTABLISHING  # it was open
                        if not all(isinstance(each, Bookmark) for each in batch):
                            self._changed.set()
            except (APIError, TransportError, ProtocolError) as error:
                self.logger.v(2).info(
                    "Definitions not watched, looking every half minute",
                    resource=definitions.group_resource,
                    err=str(error),
                )
            await asyncio.sleep(pause)

    async def _look(self) -> None:
        awaited, self._awaited = self._awaited, []
        missing = await self.startup.missing(each.descriptor for each in awaited)
        for each in awaited:
            if missing.lacking[each.descriptor.name]:
                self._awaited.append(each)
            else:
                self._make_available(each)

    def _make_available(self, found: Prepared) -> None:
        name = found.descriptor.name
        self.logger.info("The API server has the resources now", controller=name)
        self.caches.add(name, found.informers)
        found.informers.start()
        self.controllers[name].available.set()

    async def stop(self) -> None:
        """Look no more."""
        for each in self._tasks:
            if each is not asyncio.current_task():
                each.cancel()
