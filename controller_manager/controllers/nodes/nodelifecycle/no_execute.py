"""Writes the NoExecute taints, by which the pods of a node are evicted.

The unhealthy nodes of a zone wait in a queue with a limited rate. Upstream:
doNoExecuteTaintingPass, and RateLimitedTimedQueue of rate_limited_queue.go.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from controller_manager.api.core.v1 import NODES
from controller_manager.client.errors import Conflict, NotFound
from controller_manager.clock import Clock
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Done, Outcome
from controller_manager.runtime.worker import Workers
from controller_manager.workqueue.ratelimiters import TokenBucket

from .apply import NodeWriter
from .metrics import NodeLifecycleMetrics
from .taints import no_execute_taints


class EvictionQueue:
    """Names of nodes in the order in which they were added, each once.

    One node may be tainted every 1/rate seconds. Upstream: RateLimitedTimedQueue. There
    a failed write uses the token of its zone; here only a taint that was written uses a
    token.
    """

    def __init__(self, rate: float, clock: Clock) -> None:
        self._clock = clock
        self._rate = rate
        self._bucket = _bucket(rate, clock)
        self._names: dict[str, None] = {}

    def __len__(self) -> int:
        """Return the number of waiting nodes."""
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        """Tell whether a node waits."""
        return name in self._names

    def add(self, name: str) -> None:
        """Add a node behind the others, unless it waits already."""
        self._names.setdefault(name)

    def discard(self, name: str) -> None:
        """Remove a node, if it waits."""
        self._names.pop(name, None)

    def postpone(self, name: str) -> None:
        """Move a waiting node behind the others."""
        if name in self._names:
            self.discard(name)
            self.add(name)

    def head(self) -> str | None:
        """Return the first node, `None` if no node may be tainted now."""
        if self._bucket is None or not self._bucket.has_token():
            return None
        return next(iter(self._names), None)

    def used(self) -> None:
        """Use a token: a node was tainted."""
        if self._bucket is not None:
            self._bucket.try_take()

    def requeue_after(self) -> float | None:
        """Return the seconds until the next token, `None` if no node needs one."""
        if self._bucket is None or not self._names:
            return None
        return self._bucket.next_in()

    def set_rate(self, rate: float) -> None:
        """Change the rate; a wait for a token begins anew at the new rate."""
        if rate == self._rate:
            return
        waiting = self._bucket is None or not self._bucket.has_token()
        self._rate = rate
        self._bucket = _bucket(rate, self._clock)
        if waiting:
            self.used()


def _bucket(rate: float, clock: Clock) -> TokenBucket | None:
    return TokenBucket(rate, 1, clock) if rate > 0 else None


_DELAY: Final = 0.1
"""Seconds until a new node is tainted at the earliest (NodeEvictionPeriod).

By then the cache shows its new status, and its NoSchedule taint is written.
"""

_RETRY = 0.1
"""Seconds until the retry for a node whose cached version is old."""


async def _never(_: str) -> bool:
    return False


class _StaleCacheError(Exception):
    """The cache does not show the last write of a node yet."""


class NoExecuteTainter:
    """Taints the unhealthy nodes of each zone in turn, at the rate of the zone.

    The zone is the key of the queue. Upstream: doNoExecuteTaintingPass.
    """

    def __init__(
        self, context: ControllerContext, writer: NodeWriter, rate: float
    ) -> None:
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
        """Put a node into the queue of its zone."""
        self.add_zone(zone)
        self._zones[zone].add(name)
        self._queue.add_after(zone, _DELAY)

    def discard(self, zone: str, name: str) -> None:
        """Remove a node from the queue of its zone."""
        if zone in self._zones:
            self._zones[zone].discard(name)

    def set_rate(self, zone: str, rate: float) -> None:
        """Set the number of nodes of a zone that are tainted per second; 0 for none."""
        self.add_zone(zone)
        self._zones[zone].set_rate(rate)
        self._queue.add(zone)

    async def sync(self, zone: str) -> Outcome:
        """Taint the first nodes of a zone, and requeue for the next token."""
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
        requeue_after = waiting.requeue_after()
        return DONE if requeue_after is None else Done(requeue_after)

    async def _taint(self, name: str) -> bool:
        """Taint a node; return False if it needs no taint.

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
            return False  # its kubelet runs again
        try:
            await self._writer.set_taints(node, taints)
        except NotFound:
            return False
        return True
