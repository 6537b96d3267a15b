"""The controllers of one daemon: each waits for its own caches, none for another's."""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass

from controller_manager.informers.factory import ControllerInformers
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics import CacheCollectors
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.stopping import done_before


@dataclass(slots=True)
class Member:
    """One controller of a group, and the caches that it needs."""

    controller: Controller
    informers: ControllerInformers
    is_running: bool = False

    @property
    def name(self) -> str:
        """The controller's name, upstream's."""
        return self.controller.name

    def problem(self) -> str | None:
        """Return what is wrong with it, `None` if nothing is.

        That it waits for a cache is no fault of this process: a restart would not
        help, and would stop the others.
        """
        if self.is_running and not self.controller.is_healthy:
            return "workers have died"
        return None


class ControllerGroup:
    """Runs controllers; one that cannot be started yet holds up no other."""

    def __init__(
        self, rng: random.Random, logger: Logger, metrics: CacheCollectors
    ) -> None:
        """Start with no controllers."""
        self._rng = rng
        self._logger = logger
        self._metrics = metrics
        self._members: dict[str, Member] = {}

    def __len__(self) -> int:
        """Return how many controllers there are."""
        return len(self._members)

    def __getitem__(self, name: str) -> Member:
        """Return the controller of that name; raises KeyError if there is none."""
        return self._members[name]

    def __iter__(self) -> Iterator[Member]:
        """Iterate over the controllers, in the order in which they start."""
        return iter(self._members.values())

    def add(self, controller: Controller, informers: ControllerInformers) -> None:
        """Have a controller run once the informers that it asked for are synced."""
        self._members[controller.name] = Member(controller, informers)

    @property
    def names(self) -> list[str]:
        """The names of all controllers."""
        return list(self._members)

    @property
    def is_idle(self) -> bool:
        """Whether no key waits or is being worked on, delayed ones aside."""
        return all(member.controller.is_idle for member in self)

    def unsynced(self) -> dict[str, list[str]]:
        """Return who waits for what: resources by the controller's name."""
        waiting = {member.name: member.informers.unsynced() for member in self}
        return {
            name: [each.resource.group_resource for each in informers]
            for name, informers in waiting.items()
            if informers
        }

    def report(self) -> None:
        """Bring the metrics up to date that change with time alone."""
        for member in self:
            member.controller.report_running()
            for informer in member.informers.all():
                self._metrics.synced(
                    member.name,
                    informer.resource.group_resource,
                    synced=informer.is_synced,
                )

    async def some_can_work(self, patience: float) -> None:
        """Wait until all can start; after `patience` seconds until some can.

        Who cannot do anything must not lead, and one resource that cannot be read
        must not keep all others from being looked after.
        """
        waits = [
            asyncio.create_task(member.informers.wait_for_sync())
            for member in self
            if member.informers.all()
        ]
        try:
            if waits:
                _, late = await asyncio.wait(waits, timeout=patience)
                if late:
                    self._log_waiting()
                if len(late) == len(self):
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    def _log_waiting(self) -> None:
        for member in self:
            for informer in member.informers.unsynced():
                self._logger.warning(
                    "Controller waits for its cache, others go on",
                    controller=member.name,
                    resource=informer.resource.group_resource,
                    err=informer.problem() or "the list is not complete",
                )

    async def start(
        self, group: asyncio.TaskGroup, stop: asyncio.Event, interval: float
    ) -> list["asyncio.Task[None]"]:
        """Start the controllers, `interval` to twice that many seconds apart.

        Returns their tasks, named as they are. One whose caches are not synced
        starts when they are; with `stop` set it ends.
        """
        tasks = []
        for member in self:
            running = self._run(member, stop)
            tasks.append(group.create_task(running, name=member.name))
            if interval and not stop.is_set():
                delay = interval * (1 + self._rng.random())
                await done_before(stop, asyncio.sleep(delay))
        return tasks

    async def _run(self, member: Member, stop: asyncio.Event) -> None:
        if member.informers.unsynced() and not await done_before(
            stop, member.informers.wait_for_sync()
        ):
            return
        self._logger.info("Starting controller", controller=member.name)
        member.is_running = True
        await member.controller.run()

    def stop(self) -> None:
        """Have all controllers accept no more keys."""
        for member in self:
            member.is_running = False
            member.controller.stop()
