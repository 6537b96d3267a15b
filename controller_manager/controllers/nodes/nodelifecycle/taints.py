"""The taints of nodes: which they should have, and two parts that write them.

One writes NoSchedule taints by the conditions, and beta labels. The other writes
NoExecute taints: the unhealthy nodes of a zone wait in a queue with a limited rate.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from controller_manager.api.core.scheduling import Taint
from controller_manager.api.core.v1 import NODES, Node
from controller_manager.api.meta import labels_of, resource_version_number
from controller_manager.api.scalars import format_time
from controller_manager.client.rest.errors import Conflict, NotFound
from controller_manager.clock import Clock
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Done, Outcome, Requeue
from controller_manager.workqueue.ratelimiters import TokenBucket

from .health import ready_status
from .metrics import NodeLifecycleMetrics

NO_EXECUTE: Final = "NoExecute"
NO_SCHEDULE: Final = "NoSchedule"
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"

_TAINT_OF: Final = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
"""The key of the taint for a condition's type and status."""

_BY_CONDITION: Final = frozenset((*_TAINT_OF.values(), UNSCHEDULABLE))

_EXECUTING: Final = {"False": NOT_READY, "Unknown": UNREACHABLE}
"""The key of the NoExecute taint for the status of the condition Ready."""

_BOTH: Final = frozenset((NOT_READY, UNREACHABLE))

_BETA_OF: Final = {
    "kubernetes.io/os": "beta.kubernetes.io/os",
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
}
"""The beta label of each stable label; its value is that of the stable label."""

_STALE: Final = Requeue(0.05, "the cache does not show the last write yet")
_CONFLICT: Final = Requeue(0.05, "the cache does not show the last change yet")
"""An immediate retry, as after other errors, would fail again."""

_DELAY: Final = 0.1
"""Seconds until a new node is tainted at the earliest (NodeEvictionPeriod)."""

_RETRY: Final = 0.1
"""Seconds until the retry for a node whose cached version is old."""


def no_schedule_taints(node: Node, now: str) -> tuple[Taint, ...] | None:
    """Return all taints of a node, with those NoSchedule taints that it should have.

    `None` if nothing changes. `now` is the time of new taints. Upstream:
    doNoScheduleTaintingPass.
    """
    wanted = [
        _TAINT_OF[each.type, each.status]
        for each in node.status.conditions or ()
        if (each.type, each.status) in _TAINT_OF
    ]
    if node.spec.unschedulable:
        wanted.append(UNSCHEDULABLE)
    unwanted = _BY_CONDITION.difference(wanted)
    return _swapped(node, wanted, unwanted, NO_SCHEDULE, now)


def no_execute_taints(node: Node, now: str) -> tuple[Taint, ...] | None:
    """Return all taints of a node with the NoExecute taint for its health.

    `None` if nothing changes. Upstream: doNoExecuteTaintingPass, markNodeAsReachable.
    """
    key = _EXECUTING.get(ready_status(node))
    wanted = [key] if key else []
    return _swapped(node, wanted, _BOTH.difference(wanted), NO_EXECUTE, now)


def without_no_execute(node: Node) -> tuple[Taint, ...] | None:
    """Return all taints but those that evict pods (markNodeAsReachable), or `None`."""
    return _swapped(node, (), _BOTH, NO_EXECUTE, "")


def has_opposite(node: Node) -> bool:
    """Tell whether a node has a NoExecute taint that does not fit its health."""
    key = _EXECUTING.get(ready_status(node))
    return key is not None and any(
        each.effect == NO_EXECUTE and each.key in _BOTH and each.key != key
        for each in node.spec.taints or ()
    )


def taints_json(taints: Sequence[Taint]) -> list[dict[str, Any]] | None:
    """Return the value of ``spec.taints`` in a patch; `None` removes the list."""
    return [_json(each) for each in taints] or None


def _swapped(
    node: Node, wanted: Iterable[str], unwanted: Iterable[str], effect: str, now: str
) -> tuple[Taint, ...] | None:
    before = node.spec.taints or ()
    gone = {(key, effect) for key in unwanted}
    kept = tuple(each for each in before if (each.key, each.effect) not in gone)
    has = {each.key for each in kept if each.effect == effect}
    new = tuple(
        Taint(key=key, effect=effect, time_added=now)
        for key in dict.fromkeys(wanted)
        if key not in has
    )
    after = (*kept, *new)
    return after if after != before else None


def _json(taint: Taint) -> dict[str, Any]:
    fields = {
        "key": taint.key,
        "value": taint.value,
        "effect": taint.effect,
        "timeAdded": taint.time_added,
    }
    return {name: value for name, value in fields.items() if value}


def labels_to_set(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the beta labels that are missing or wrong (reconcileNodeLabels)."""
    return {
        beta: labels[stable]
        for stable, beta in _BETA_OF.items()
        if stable in labels and labels.get(beta) != labels[stable]
    }


class NodeWriter:
    """Patches nodes, and recognizes caches that do not show the last patch yet."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.server_clock
        self._informer = context.informers.informer(NODES)
        self._written: dict[str, tuple[int, int]] = {}

    def timestamp(self) -> str:
        """Return the API server's time: tolerations count from the time of a taint."""
        return format_time(self._clock.now())

    def is_stale(self, node: Node) -> bool:
        """Tell whether a node, cached or answered, is older than its last write."""
        written, version = self._written.get(node.metadata.name), self._version(node)
        if written is None:
            return False
        if version > written:
            del self._written[node.metadata.name]
        return version < written

    def forget(self, name: str) -> None:
        """Drop the last write of a node that is gone."""
        self._written.pop(name, None)

    async def patch(
        self, node: Node, patch: Mapping[str, Any], subresource: str = ""
    ) -> Node:
        """Patch a node as it is cached; return it as stored, or raise Conflict."""
        stored = await self._client.patch_exactly(
            NODES, node, patch, subresource=subresource, same_version=True
        )
        self._written[node.metadata.name] = self._version(stored)
        return stored

    async def set_taints(self, node: Node, taints: Sequence[Taint]) -> None:
        """Replace all taints."""
        await self.patch(node, {"spec": {"taints": taints_json(taints)}})

    def _version(self, node: Node) -> tuple[int, int]:
        version = resource_version_number(node.metadata.resource_version)
        return self._informer.epoch, version


class NoScheduleTainter:
    """Writes the NoSchedule taints and the beta labels of one node at a time.

    Upstream: doNodeProcessingPassWorker; it does not retry a failed write.
    """

    def __init__(self, context: ControllerContext, writer: NodeWriter) -> None:
        self._writer = writer
        self.queue = context.queue("node_lifecycle_controller")
        self._nodes = context.lister(NODES)
        context.informers.informer(NODES).add_handler(
            Handler(
                on_add=self._enqueue,
                on_update=lambda _, node: self._enqueue(node),
                on_delete=lambda node: writer.forget(node.metadata.name),
                depends_on=DependsOn(
                    "metadata.labels",
                    "spec.taints",
                    "spec.unschedulable",
                    "status.conditions",
                ),
            )
        )

    async def sync(self, name: str) -> Outcome:
        """Update the taints and labels of a node by its conditions."""
        node = self._nodes.by_key(name)
        if node is None:
            return DONE
        taints = no_schedule_taints(node, self._writer.timestamp())
        labels = labels_to_set(labels_of(node))
        if taints is None and not labels:
            return DONE
        if self._writer.is_stale(node):
            return _STALE
        patch: dict[str, Any] = {}
        if taints is not None:
            patch["spec"] = {"taints": taints_json(taints)}
        if labels:
            patch["metadata"] = {"labels": labels}
        try:
            await self._writer.patch(node, patch)
        except NotFound:
            return DONE
        except Conflict:
            return _CONFLICT
        return DONE

    def _enqueue(self, node: Node) -> None:
        self.queue.add(node.metadata.name)

    def enqueue_all(self) -> Iterator[None]:
        """Add the names of all nodes, one in each step."""
        for name in self._nodes.keys():  # noqa: SIM118 - a lister is no mapping
            self.queue.add(name)
            yield


class EvictionQueue:
    """Names of nodes in the order in which they were added, each once.

    One node may be tainted every 1/rate seconds. Upstream: RateLimitedTimedQueue, where
    a failed write uses a token, too.
    """

    def __init__(self, rate: float, clock: Clock) -> None:
        self._clock = clock
        self._rate = rate
        self._bucket = _bucket(rate, clock)
        self._names: dict[str, None] = {}

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


class NoExecuteTainter:
    """Taints the unhealthy nodes of each zone, the key, at the rate of the zone.

    Upstream: doNoExecuteTaintingPass.
    """

    def __init__(
        self,
        context: ControllerContext,
        writer: NodeWriter,
        rate: float,
        renews_lease: Callable[[str], Awaitable[bool]],
    ) -> None:
        """Take the nodes a second of a new zone, and a check for renewed leases."""
        self._clock = context.clock
        self._writer = writer
        self._rate = rate
        self._nodes = context.lister(NODES)
        self._metrics = context.metrics.of(NodeLifecycleMetrics)
        self.queue = context.queue("node_lifecycle_controller_zones")
        self._zones: dict[str, EvictionQueue] = {}
        self._renews_lease = renews_lease

    def add_zone(self, zone: str) -> None:
        """Make the queue of a new zone, and show its metric."""
        if zone not in self._zones:
            self._zones[zone] = EvictionQueue(self._rate, self._clock)
            self._metrics.evictions.labels(zone)  # none yet

    def remove_zone(self, zone: str) -> None:
        """Drop the queue of a zone that has no nodes."""
        self._zones.pop(zone, None)

    def add(self, zone: str, name: str) -> None:
        """Put a node into the queue of its zone."""
        self.add_zone(zone)
        self._zones[zone].add(name)
        self.queue.add_after(zone, _DELAY)

    def discard(self, zone: str, name: str) -> None:
        """Remove a node from the queue of its zone."""
        if zone in self._zones:
            self._zones[zone].discard(name)

    def set_rate(self, zone: str, rate: float) -> None:
        """Set the number of nodes of a zone that are tainted per second; 0 for none."""
        self.add_zone(zone)
        self._zones[zone].set_rate(rate)
        self.queue.add(zone)

    async def sync(self, zone: str) -> Outcome:
        """Taint the first nodes of a zone, and requeue for the next token."""
        waiting = self._zones.get(zone)
        if waiting is None:
            return DONE
        while (name := waiting.head()) is not None:
            node = self._nodes.by_key(name)
            if node is not None and self._writer.is_stale(node):
                return Done(_RETRY)
            try:
                is_tainted = node is not None and await self._taint(node)
            except Conflict:
                return Done(_RETRY)
            except Exception:
                waiting.postpone(name)
                raise
            waiting.discard(name)
            if is_tainted:
                waiting.used()
                self._metrics.evictions.labels(zone).inc()
        requeue_after = waiting.requeue_after()
        return DONE if requeue_after is None else Done(requeue_after)

    async def _taint(self, node: Node) -> bool:
        """Taint a node; return False if it needs none. May raise Conflict."""
        taints = no_execute_taints(node, self._writer.timestamp())
        if taints is None or len(taints) < len(node.spec.taints or ()):
            return False  # it is ready again
        if await self._renews_lease(node.metadata.name):
            return False  # its kubelet runs again
        try:
            await self._writer.set_taints(node, taints)
        except NotFound:
            return False
        return True
