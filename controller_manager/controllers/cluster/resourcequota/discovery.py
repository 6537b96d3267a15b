"""Discovers the resources that quotas count, every half minute (Sync of upstream)."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from controller_manager.client.resource_mapper import ResourceMapper
from controller_manager.clock import Clock
from controller_manager.control.definitions import (
    ESTABLISHING,
    INITIAL_SYNC,
    REDISCOVER,
)
from controller_manager.observability.logs import Logger
from controller_manager.runtime.outcome import DONE, Done, Outcome, failure_of
from controller_manager.workqueue.queue import WorkQueue

from .monitors import VERBS, Monitors

_UNSYNCED_RECHECK: Final = 1.0
"""The seconds between two checks for newly synced resources."""

_DISCOVERY: Final = "resources"
_UNSYNCED: Final = "unsynced"


class Resources:
    """Adjusts the monitors to the resources that the API server serves.

    `synced` is called when resources have become synced after the start.
    """

    def __init__(
        self,
        mapper: ResourceMapper,
        queue: WorkQueue,
        monitors: Monitors,
        clock: Clock,
        logger: Logger,
        synced: Callable[[], None],
    ) -> None:
        self._mapper = mapper
        self._queue = queue
        self._monitors = monitors
        self._clock = clock
        self._logger = logger
        self._synced = synced
        self._discovered = asyncio.Event()
        self._first_sync = asyncio.Lock()
        self._has_waited = False

    def enqueue_all(self) -> Iterator[None]:
        """Start discovery, and with it the watches."""
        self._queue.add(_DISCOVERY)
        yield

    def served_changes(self) -> None:
        """Discover resources soon; upstream takes up to 30 s to notice a change."""
        self._queue.add_after(_DISCOVERY, ESTABLISHING)

    async def sync(self, key: str) -> Outcome:
        """Discover resources, or check which of them are synced."""
        if key == _DISCOVERY:
            failed = await failure_of(self._discover(), REDISCOVER)
            return failed or Done(REDISCOVER)
        if self._monitors.newly_synced():
            self._synced()
        return Done(_UNSYNCED_RECHECK) if self._monitors.unsynced() else DONE

    async def _discover(self) -> None:
        discovery = await self._mapper.discovery(ESTABLISHING)
        if not discovery.preferred(*VERBS):
            self._logger.warning("No resources are discovered, keeping the watches")
            return
        if problem := discovery.problem():
            self._logger.warning("Not all resources are known", err=problem)
        self._monitors.adjust(discovery, self._clock.monotonic())
        self._discovered.set()
        self._queue.add(_UNSYNCED)

    async def wait_for_sync(self) -> None:
        """Wait until all resources are synced, half a minute at most.

        One resource that cannot be listed must not stop the counting of the others.
        Upstream waits for all of them.
        """
        async with self._first_sync:
            if not self._has_waited:
                await self._wait_for_first_sync()
                self._has_waited = True

    async def _wait_for_first_sync(self) -> None:
        try:
            async with asyncio.timeout(INITIAL_SYNC):
                await self._discovered.wait()
                await self._monitors.wait_for_sync()
        except TimeoutError:
            self._logger.warning(
                "Not all resources could be read, counting the others",
                unread=", ".join(self._monitors.unsynced()),
            )
