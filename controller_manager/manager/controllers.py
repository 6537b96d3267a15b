"""The controllers of one daemon, and the events that they record.

Each controller waits only for its own caches.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from controller_manager.client.events.recorder import EventBroadcaster
from controller_manager.client.rest.client import Client
from controller_manager.clock import Clock
from controller_manager.informers.factory import ControllerInformers
from controller_manager.observability.defects import Defects, count_nowhere
from controller_manager.observability.logs import Logger
from controller_manager.options.config import GenericConfig
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.outcome import KeyReport
from controller_manager.runtime.worker import DebugPage, done_before, until_done

from .runnable import Checks, Lifetime, Runnable


@dataclass(slots=True)
class Member:
    """One controller of a group, and the caches that it needs."""

    controller: Controller
    informers: ControllerInformers
    available: asyncio.Event
    """Set once the API server has the resources that the controller needs."""
    owned: asyncio.Event
    """Set once this process holds the lease under which the controller runs."""
    is_running: bool = False

    @property
    def name(self) -> str:
        """The controller's name, upstream's."""
        return self.controller.name

    @property
    def can_start(self) -> bool:
        """True if its resources and its lease are there, and its caches are synced."""
        is_there = self.available.is_set() and self.owned.is_set()
        return is_there and not self.informers.unsynced()

    async def wait(self) -> None:
        """Wait until `can_start`."""
        await self.available.wait()
        await self.owned.wait()
        await self.informers.wait_for_sync()

    def problem(self) -> str | None:
        """Return the problem of the controller, `None` if it is healthy.

        A controller that waits for a cache is healthy: a restart would not help, and
        would stop the others.
        """
        if self.is_running and not self.controller.is_healthy:
            return "workers have died"
        return None


@dataclass(eq=False)
class ControllerGroup(Runnable):
    """Runs controllers; one that cannot start yet does not delay the others.

    One that ends by an unexpected exception runs again a moment later.
    """

    config: GenericConfig
    rng: random.Random
    logger: Logger
    count_defect: Callable[[str], None] = count_nowhere
    _members: dict[str, Member] = field(init=False, default_factory=dict)
    _tasks: list[asyncio.Task[None]] = field(init=False, default_factory=list)
    _is_stopping: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        """Count what is unexpected."""
        self._defects = Defects(self.logger, self.count_defect)

    def __len__(self) -> int:
        """Return how many controllers there are; see `__iter__`."""
        return len(self.names)

    def __getitem__(self, name: str) -> Member:
        """Return the controller of that name; raises KeyError if there is none."""
        return self._members[name]

    def __iter__(self) -> Iterator[Member]:
        """Iterate over the controllers, in the order in which they start.

        Those whose resources the API server lacks are left out.
        """
        members = self._members.values()
        return (each for each in members if each.available.is_set())

    def add(
        self,
        controller: Controller,
        informers: ControllerInformers,
        *,
        is_owned: bool = True,
    ) -> Member:
        """Add a controller, and return its membership.

        It runs once it is available and the informers that it needs are synced, and
        once it is owned (see `own`) if it is not from the beginning.
        """
        member = Member(controller, informers, asyncio.Event(), asyncio.Event())
        if is_owned:
            member.owned.set()
        self._members[controller.name] = member
        return member

    def own(self, names: Iterable[str]) -> None:
        """Let controllers start that were not owned; ignores other names."""
        for name in names:
            if name in self._members:
                self._members[name].owned.set()

    @property
    def names(self) -> list[str]:
        """The names of all controllers; see `__iter__`."""
        return [member.name for member in self]

    @property
    def is_idle(self) -> bool:
        """True if no key waits or is being processed; delayed keys do not count."""
        return all(member.controller.is_idle for member in self)

    def debug_pages(self) -> Mapping[str, Mapping[str, DebugPage]]:
        """Return the debug pages of each controller, by its name."""
        return {member.name: member.controller.debug for member in self}

    def key_reports(self, name: str, key: str) -> list[KeyReport] | None:
        """Return the reports about a key of a controller, `None` without that one."""
        member = self._members.get(name)
        return None if member is None else member.controller.key_reports(key)

    def report(self) -> None:
        """Update the metrics that no event updates."""
        for member in self:
            member.controller.report_running()

    async def run(self, life: Lifetime) -> None:
        """Start the controllers, one to two start intervals apart.

        A controller whose resources are missing, or whose caches are not synced, waits
        for them. Once `stop` is set, it does not start any more.
        """
        interval = self.config.controller_start_interval
        for member in self._members.values():
            running = self._run(member, life.stop)
            self._tasks.append(life.tasks.create_task(running, name=member.name))
            if interval and not life.stop.is_set():
                delay = interval * (1 + self.rng.random())
                await done_before(life.stop, asyncio.sleep(delay))

    async def _run(self, member: Member, stop: asyncio.Event) -> None:
        if not member.can_start and not await done_before(stop, member.wait()):
            return
        self.logger.info("Starting controller", controller=member.name)
        failed = partial(self._failed, member)
        await until_done(partial(self._run_once, member), failed, stop)

    async def _run_once(self, member: Member) -> None:
        if self._is_stopping:
            return
        member.is_running = True
        await member.controller.run()

    def _failed(self, member: Member, error: Exception) -> None:
        """Note that a controller has ended; it runs again, and so do the others.

        It is not unhealthy meanwhile: a restart would stop the other controllers, and
        the standby would meet the same object.
        """
        member.is_running = False
        self._defects.report(member.name, error)

    async def stop(self) -> None:
        """Drop the keys that wait, and finish the syncs that are in progress.

        Syncs that take longer than the shut-down timeout are cancelled.
        """
        if not self._tasks:
            return
        self.logger.info("Shutting down")
        self._is_stopping = True
        for member in self._members.values():
            member.is_running = False
            member.controller.stop()
        timeout = self.config.controller_shutdown_timeout
        _, late = await asyncio.wait(self._tasks, timeout=timeout)
        for task in late:
            self.logger.warning("Syncs cancelled", controller=task.get_name())
            task.cancel()
        # No sync may write once the lease is released.
        await asyncio.gather(*late, return_exceptions=True)

    def health(self) -> Checks:
        """Return a check for each controller: whether its workers are alive."""
        return {member.name: member.problem for member in self}

    def ready(self) -> Checks:
        """Return a check: whether the controllers are being stopped."""
        return {"shutdown": self._stopping_problem}

    def _stopping_problem(self) -> str | None:
        return "shutting down" if self._is_stopping else None


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
