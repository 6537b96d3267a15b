"""Writes the NoExecute taints, by which the pods of a node are evicted."""

from collections.abc import Awaitable, Callable

from controller_manager.api.core.v1 import NODES
from controller_manager.client.errors import Conflict, NotFound
from controller_manager.controllers.nodes.nodelifecycle.eviction_queue import (
    EvictionQueue,
)
from controller_manager.controllers.nodes.nodelifecycle.metrics import (
    NodeLifecycleMetrics,
)
from controller_manager.controllers.nodes.nodelifecycle.taints import no_execute_taints
from controller_manager.controllers.nodes.nodelifecycle.writes import NodeWriter
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Done, Outcome
from controller_manager.runtime.worker import Workers

_RETRY = 0.1
"""Seconds after which a node is tried again whose cached version is old."""


async def _never(_: str) -> bool:
    return False


class _StaleCacheError(Exception):
    """The cache does not show the last write of a node yet."""


class Tainter:
    """Taints the unhealthy nodes of each zone one after the other, at the zone's rate.

    The zone is the key of the queue. Upstream: doNoExecuteTaintingPass.
    """

    def __init__(
        self, context: ControllerContext, writer: NodeWriter, rate: float
    ) -> None:
        """Take the context and the rate of new zones, in nodes a second."""
        self._context = context
        self._clock = context.clock
        self._writer = writer
        self._rate = rate
        self._nodes = context.lister(NODES)
        self._metrics = context.metrics.of(NodeLifecycleMetrics)
        self._queue = context.queue("node_lifecycle_controller_zones")
        self._zones: dict[str, EvictionQueue] = {}
        self.renews_lease: Callable[[str], Awaitable[bool]] = _never

    def workers(self) -> Workers:
        """Return the workers, not yet running."""
        return self._context.workers(self._queue, self.sync, 1)

    def add_zone(self, zone: str) -> None:
        """Make the queue of a zone, if it is new."""
        if zone not in self._zones:
            self._zones[zone] = EvictionQueue(self._rate, self._clock)
            self._metrics.zone_seen(zone)

    def remove_zone(self, zone: str) -> None:
        """Drop the queue of a zone that has no nodes."""
        self._zones.pop(zone, None)

    def add(self, zone: str, name: str) -> None:
        """Have a node tainted when it is its turn."""
        self.add_zone(zone)
        self._zones[zone].add(name)
        self._queue.add(zone)

    def discard(self, zone: str, name: str) -> None:
        """Do not taint a node."""
        if zone in self._zones:
            self._zones[zone].discard(name)

    def set_rate(self, zone: str, rate: float) -> None:
        """Change how many nodes of a zone are tainted a second; 0 for none."""
        self.add_zone(zone)
        self._zones[zone].set_rate(rate)
        self._queue.add(zone)

    async def sync(self, zone: str) -> Outcome:
        """Taint the nodes of a zone whose turn it is, and wait for the next turn."""
        waiting = self._zones.get(zone)
        if waiting is None:
            return DONE
        while (name := waiting.head()) is not None:
            try:
                is_tainted = await self._taint(name)
            except (Conflict, _StaleCacheError):
                return Done(_RETRY)
            except Exception:
                waiting.postpone(name)
                raise
            waiting.discard(name)
            if is_tainted:
                waiting.used()
                self._metrics.evicted(zone)
        after = waiting.next_in()
        return DONE if after is None else Done(after)

    async def _taint(self, name: str) -> bool:
        """Taint a node; tell whether it needed it.

        Raises Conflict or _StaleCacheError if the cached node is old.
        """
        node = self._nodes.by_key(name)
        if node is None:
            return False
        if self._writer.is_stale(node):
            raise _StaleCacheError
        taints = no_execute_taints(node, self._writer.timestamp())
        if taints is None or len(taints) < len(node.spec.taints or ()):
            return False  # it is ready again
        if await self.renews_lease(name):
            return False  # its kubelet is back
        try:
            await self._writer.set_taints(node, taints)
        except NotFound:
            return False
        return True
