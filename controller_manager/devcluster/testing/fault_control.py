"""Applies faults to a cluster that runs in another thread."""

import asyncio

from .cluster_thread import ClusterThread
from .fault import Fault
from .open_watch import Ending
from .request_filter import RequestFilter
from .running_cluster import RunningCluster


class FaultControl:
    """Changes the faults of a cluster; its methods may be called in any thread."""

    def __init__(
        self, thread: ClusterThread[RunningCluster], running: RunningCluster
    ) -> None:
        self._thread = thread
        self._running = running

    @property
    def version(self) -> int:
        """The latest resourceVersion."""
        return self._running.version

    def add(self, fault: Fault) -> Fault:
        """Apply a fault to requests from now on, and return it."""
        self._thread.call(lambda: self._running.faults.add(fault))
        return fault

    def clear(self) -> None:
        """Remove all faults, and listen if the server does not; raises ServingError."""
        self._thread.call(self._running.faults.clear)
        self.listen_again()

    def end_watches(self, which: RequestFilter, ending: Ending) -> int:
        """End the open watches that are selected; return their number."""
        return self._thread.call(lambda: self._running.end_watches(which, ending))

    def stop_listening(self) -> None:
        """Cut all connections and refuse new ones."""
        self._thread.run(self._running.stop_listening()).result()

    def listen_again(self, after: float = 0.0) -> None:
        """Accept connections again, at once or some seconds later.

        Raises ServingError if the port cannot be used any more.
        """
        restart = self._thread.run(self._listen_again(after))
        if not after:
            restart.result()

    async def _listen_again(self, after: float) -> None:
        await self.sleep(after)
        await self._running.listen_again()

    async def sleep(self, seconds: float) -> None:
        """Wait some seconds of the clients' clock, in the thread of the cluster."""
        await asyncio.sleep(seconds * self._running.time_factor)
