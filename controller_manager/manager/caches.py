"""The caches of one daemon: the informers, and the controllers that need them."""

import asyncio
import gc
from dataclasses import dataclass, field
from typing import Final

from controller_manager.informers.factory import ControllerInformers, InformerFactory
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.client import CacheCollectors
from controller_manager.serving.health import HealthCheck

from .runnable import Checks, Lifetime, Runnable

_SYNC_TIMEOUT: Final = 10.0
"""Seconds to wait for all caches before controllers with synced caches start."""


@dataclass(eq=False)
class CacheGroup(Runnable):
    """Runs the informers that controllers need, one for each resource."""

    factory: InformerFactory
    metrics: CacheCollectors
    logger: Logger
    _needs: dict[str, ControllerInformers] = field(init=False, default_factory=dict)
    _tasks: list[asyncio.Task[None]] = field(init=False, default_factory=list)
    synced: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set once all caches hold all objects."""

    def add(self, controller: str, informers: ControllerInformers) -> None:
        """Note which informers a controller needs; it may need none."""
        self._needs[controller] = informers

    async def run(self, life: Lifetime) -> None:
        """Start all informers."""
        self._tasks = [
            life.tasks.create_task(self.factory.run(), name="informers"),
            life.tasks.create_task(self._report_sync(), name="sync"),
        ]

    async def _report_sync(self) -> None:
        await self.factory.wait_for_sync()
        self.logger.info("Caches are synced")
        self.synced.set()

    async def wait(self) -> None:
        """Wait until all controllers can start, for ten seconds; then for some.

        Objects that are cached by then live long, so they are frozen: later garbage
        collections skip them.
        """
        await self.wait_for_some(_SYNC_TIMEOUT)
        gc.collect()
        gc.freeze()

    async def wait_for_some(self, seconds: float) -> None:
        """Wait until all controllers can start, `seconds` at most.

        After that, wait until at least one can start. A process whose controllers
        all wait for a cache must not lead. But one resource that cannot be read must
        not stop the controllers that do not need it.
        """
        waits = [
            asyncio.create_task(informers.wait_for_sync())
            for informers in self._needs.values()
            if informers.all()
        ]
        try:
            if waits:
                _, late = await asyncio.wait(waits, timeout=seconds)
                if late:
                    self._log_waiting()
                if len(late) == len(self._needs):
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    def _log_waiting(self) -> None:
        for controller, informers in self._needs.items():
            for informer in informers.unsynced():
                self.logger.warning(
                    "Controller waits for its cache, others start",
                    controller=controller,
                    resource=informer.resource.group_resource,
                    err=informer.problem() or "the list is not complete",
                )

    async def stop(self) -> None:
        """End all watches."""
        for task in self._tasks:
            task.cancel()

    def ready(self) -> Checks:
        """Return a check for each cache: which controllers wait for it, and why."""
        checks: dict[str, HealthCheck] = {}
        waiting = self._waiting()
        for informer in self.factory.shared():
            resource = informer.resource.group_resource
            problem = informer.problem()
            if not informer.is_synced:
                if self.factory.was_late(informer):
                    # Its resource came after the start, and may be gone again: that
                    # must not make a process unready which was ready before.
                    continue
                who = ", ".join(waiting.get(resource, ())) or "nobody"
                why = f": {problem}" if problem else ""
                problem = f"waiting for the cache to sync; {who} cannot start{why}"
            checks[f"informer-{resource}"] = _check_with(problem)
        return checks

    def _waiting(self) -> dict[str, list[str]]:
        """Return the controllers that wait for a cache, by its resource."""
        waiting: dict[str, list[str]] = {}
        for controller, informers in self._needs.items():
            for informer in informers.unsynced():
                resource = informer.resource.group_resource
                waiting.setdefault(resource, []).append(controller)
        return waiting

    def report(self) -> None:
        """Update the metrics that no event updates."""
        for controller, informers in self._needs.items():
            for informer in informers.all():
                self.metrics.synced(
                    controller,
                    informer.resource.group_resource,
                    synced=informer.is_synced,
                )


def _check_with(problem: str | None) -> HealthCheck:
    return lambda: problem
