"""The event broadcasters of one daemon, one for each component with events."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from controller_manager.client.events.recorder import EventBroadcaster
from controller_manager.client.rest.client import Client
from controller_manager.clock import Clock
from controller_manager.observability.defects import count_nowhere
from controller_manager.observability.logs import Logger

from .runnable import Lifetime, Runnable

_FLUSH: Final = 3.0
"""Seconds to wait at the end for events that are not written yet."""


@dataclass(eq=False)
class EventBroadcasters(Runnable):
    """Writes events in the background; it stops after the controllers."""

    clock: Clock
    rng: random.Random
    logger: Logger
    count_defect: Callable[[str], None] = count_nowhere
    _broadcasters: list[EventBroadcaster] = field(init=False, default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(init=False, default_factory=list)

    def make(self, client: Client, component: str) -> EventBroadcaster:
        """Return a new broadcaster; must be called before `run`.

        `client` writes its events, and `component` is their source.
        """
        broadcaster = self.apart(client, component)
        self._broadcasters.append(broadcaster)
        return broadcaster

    def apart(self, client: Client, component: str) -> EventBroadcaster:
        """Return a new broadcaster that its user runs, perhaps in another thread."""
        return EventBroadcaster(
            client,
            component,
            clock=self.clock,
            rng=self.rng,
            logger=self.logger.bind(component=component),
            count_defect=self.count_defect,
        )

    async def run(self, life: Lifetime) -> None:
        """Start to write recorded events."""
        self._tasks = [
            life.tasks.create_task(broadcaster.run(), name="events")
            for broadcaster in self._broadcasters
        ]

    async def flush(self) -> None:
        """Wait until all recorded events are written, three seconds at most."""
        flushing = [
            asyncio.create_task(broadcaster.flush())
            for broadcaster in self._broadcasters
        ]
        if flushing:
            _, unwritten = await asyncio.wait(flushing, timeout=_FLUSH)
            for flush in unwritten:
                flush.cancel()

    async def stop(self) -> None:
        """Write no more."""
        for task in self._tasks:
            task.cancel()
