"""A running controller: a pool of workers, or several."""

import asyncio
from collections.abc import Mapping

from .outcome import KeyReport
from .worker import DebugPage, Workers


class WorkerGroup:
    """Several pools of workers, each with a queue of its own, as one controller.

    All queues are open before the first worker runs.
    """

    def __init__(
        self, *pools: Workers, debug: Mapping[str, DebugPage] | None = None
    ) -> None:
        """Take the pools; they start in this order.

        `debug` has pages by name, served below ``/debug/controllers/NAME``.
        """
        self._pools = pools
        self.name = pools[0].name
        self.debug = debug or {}

    @property
    def is_healthy(self) -> bool:
        """True if the workers of all pools are running."""
        return all(pool.is_healthy for pool in self._pools)

    @property
    def is_idle(self) -> bool:
        """True if no pool has a key to process; delayed keys do not count."""
        return all(pool.is_idle for pool in self._pools)

    def report_running(self) -> None:
        """Update the metrics of work in progress."""
        for pool in self._pools:
            pool.report_running()

    def key_reports(self, key: str) -> list[KeyReport]:
        """Return a report about a key for each pool."""
        return [each for pool in self._pools for each in pool.key_reports(key)]

    async def run(self) -> None:
        """Run all pools until each is stopped and its syncs have ended."""
        async with asyncio.TaskGroup() as group:
            for pool in self._pools:
                group.create_task(pool.run(), name=f"{self.name}-pool")

    def stop(self) -> None:
        """Accept no more keys in any pool, and drop those that wait."""
        for pool in self._pools:
            pool.stop()


Controller = Workers | WorkerGroup
"""A controller, as the daemon starts, checks and stops it."""
