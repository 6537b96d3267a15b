"""Checks the health of the nodes every few seconds (monitorNodeHealth).

The leases of silent nodes are read from the API server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final

from controller_manager.api.coordination.v1 import LEASE_RENEWALS
from controller_manager.api.core.scheduling import Taint
from controller_manager.api.core.v1 import NODES, Node, NodeMeta
from controller_manager.client.errors import (
    APIError,
    Conflict,
    NotFound,
    ProtocolError,
    TransportError,
)
from controller_manager.client.events import NORMAL
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import Done, Outcome, failure_of
from controller_manager.runtime.worker import Workers

from .apply import NodeWriter
from .handlers import NODE_LEASES, NodeHandlers
from .metrics import NodeLifecycleMetrics
from .no_execute import NoExecuteTainter
from .node_health import (
    UNKNOWN,
    GracePeriods,
    is_silent,
    observe,
    ready_status,
    unknown_conditions,
)
from .taints import has_opposite, no_execute_taints, without_no_execute
from .topology import Change, Count, Rates, ZoneState, disruption, zone_of
from .tracker import READY, NodeRecord, NodeTracker


class LeaseReader:
    """Checks the leases of nodes before a node counts as dead or is tainted.

    A watch may be silent although the nodes send heartbeats. Upstream trusts its cache.
    """

    def __init__(
        self, context: ControllerContext, tracker: NodeTracker, grace: GracePeriods
    ) -> None:
        self._clock = context.clock
        self._informers = context.informers
        self._logger = context.logger
        self._tracker = tracker
        self._grace = grace

    async def is_alive(self, record: NodeRecord) -> bool:
        """Tell whether a node has sent a heartbeat within its grace period."""
        if record.dies_at(self._grace) < self._clock.monotonic():
            await self._read(record)
        return record.dies_at(self._grace) >= self._clock.monotonic()

    async def renews_lease(self, name: str) -> bool:
        """Tell whether a node renews its lease, although its status is still Unknown.

        Then its kubelet runs again, and will post the status soon. Upstream does not
        check that.
        """
        record = self._tracker.get(name)
        if record is None or not is_silent(record.node):
            return False
        if not self._is_renewed(record):
            await self._read(record)
        return self._is_renewed(record)

    def _is_renewed(self, record: NodeRecord) -> bool:
        """Tell whether this process saw a renewed lease within the grace period."""
        seen_at = record.heard_at
        now = self._clock.monotonic()
        return seen_at is not None and now - seen_at <= self._grace.monitor

    async def _read(self, record: NodeRecord) -> None:
        """Read the lease of a node, and store a renewal.

        The watch may deliver the same renewal during the request, so callers check
        afterwards whether the node is alive.
        """
        name = record.node.metadata.name
        lease = await self._informers.read(LEASE_RENEWALS, NODE_LEASES, name)
        if lease is None or lease.spec.renew_time in (None, record.renewed):
            return
        self._logger.warning(
            "The API server has a renewed lease that the cache does not show", node=name
        )
        now = self._clock.monotonic()
        self._tracker.renewed(name, lease.spec.renew_time, now)


_AT_ONCE: Final = 8
"""Nodes that are written concurrently, as upstream."""

_ATTEMPTS: Final = 5
"""The attempts to swap the taints of a node that changes (UpdateTaintBackoff)."""

_TURN: Final = 200
"""The number of nodes that are checked in one turn: about one millisecond."""

_SLACK: Final = 1.0
"""Seconds by which a check may be late before the process counts as paused."""

_LEAST_PERIOD: Final = 0.1
"""Seconds between two checks if the flag is 0."""

_KEY: Final = "nodes"

_Action = Callable[[NodeRecord], Awaitable[None]]


class NodeMonitor:
    """Finds the nodes that have died, and those that are ready again.

    A check costs time only for the nodes that have changed, that are not ready, or
    whose grace period is over.
    """

    def __init__(
        self,
        context: ControllerContext,
        period: float,
        grace: GracePeriods,
        rates: Rates,
        writer: NodeWriter,
        tainter: NoExecuteTainter,
    ) -> None:
        """Take the seconds between two checks, and the parts that write."""
        self._context = context
        self._clock = context.clock
        self._logger = context.logger
        self._period = max(period, _LEAST_PERIOD)
        self._grace = grace
        self._rates = rates
        self._writer = writer
        self._tainter = tainter
        self._metrics = context.metrics.of(NodeLifecycleMetrics)
        self._queue = context.queue("node_lifecycle_controller_monitor")
        self._tracker = NodeTracker(grace)
        self._handlers = NodeHandlers(context, self._tracker)
        self.leases = LeaseReader(context, self._tracker, grace)
        self._states: dict[str, ZoneState] = {}
        self._all_down = False
        self._checked_at: float | None = None
        self.on_unreachable: Callable[[str], None] = _ignore

    def workers(self) -> Workers:
        """Return the worker, not yet running."""
        return self._context.workers(self._queue, self.check_nodes, 1, self._start)

    def is_unreachable(self, name: str) -> bool:
        """Tell whether the status of a node is unknown."""
        record = self._tracker.get(name)
        return record is not None and record.ready == UNKNOWN

    def _start(self) -> Iterator[None]:
        self._handlers.start()
        self._queue.add(_KEY)
        yield

    async def check_nodes(self, key: str) -> Outcome:  # noqa: ARG002 - there is one
        """Check the nodes that may need a write; requeue after the period."""
        failed = await failure_of(self._check_nodes(), self._period)
        return failed or Done(self._period)

    async def _check_nodes(self) -> None:
        began = self._clock.monotonic()
        if pause := self._pause_before(began):
            self._tracker.discount_pause(pause, began)
        changed = self._handlers.update(self._forget)
        due = self._tracker.due(began)
        names = list(dict.fromkeys((*changed, *self._tracker.unhealthy, *due)))
        dead = await self._check_health(names)
        await self._each(dead, self._mark_unknown)
        await self._apply_disruption()
        await self._each(names, self._set_taints)
        self._checked_at = self._clock.monotonic()
        self._metrics.all_nodes_seconds.observe(self._checked_at - began)

    def _pause_before(self, now: float) -> float:
        """Return the seconds for which this process was paused, 0 if it was not.

        The process has not read yet the heartbeats of that time, so the pause does not
        count as silence of the nodes.
        """
        last = self._checked_at
        late = 0.0 if last is None else now - last - self._period
        return late if late > self._period + _SLACK else 0.0

    def _forget(self, record: NodeRecord) -> None:
        self._tainter.discard(record.zone, record.node.metadata.name)

    async def _check_health(self, names: Iterable[str]) -> list[str]:
        """Update the status of nodes; return the nodes that are silent for too long."""
        dead = []
        for number, name in enumerate(names):
            record = self._tracker.get(name)
            if record is not None and self._check_health_of(record):
                dead.append(name)
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
        return dead

    def _check_health_of(self, record: NodeRecord) -> bool:
        """Update the status of a node; tell whether it is silent for too long."""
        zone = zone_of(record.node)
        if zone != record.zone:
            self._forget(record)
        self._tainter.add_zone(zone)
        if self._writer.is_stale(record.node):
            self._handlers.requeue(record.node.metadata.name)
            return False
        status = ready_status(record.node)
        if status == UNKNOWN and record.ready != UNKNOWN:
            self.on_unreachable(record.node.metadata.name)
        self._tracker.set_status(record, status)
        is_dead = record.dies_at(self._grace) < self._clock.monotonic()
        return is_dead and status != UNKNOWN

    async def _mark_unknown(self, record: NodeRecord) -> None:
        """Set the conditions of a silent node to Unknown.

        Raises Conflict if the node has changed meanwhile: then it may have posted its
        status.
        """
        name, node = record.node.metadata.name, record.node
        began = self._clock.monotonic()
        if await self.leases.is_alive(record):
            self._tracker.set_status(record, record.ready)
            return
        conditions = unknown_conditions(node, self._writer.timestamp())
        record.node = await self._writer.set_conditions(node, conditions)
        record.health = observe(record.health, record.node, record.health.seen_at, 0)
        if record.ready == READY:
            self._event(node)
        self._tracker.set_status(record, UNKNOWN)
        self._handlers.requeue(name)
        self.on_unreachable(name)
        self._metrics.node_seconds.observe(self._clock.monotonic() - began)

    def _event(self, node: Node) -> None:
        name = node.metadata.name
        metadata = NodeMeta(name=name, uid=node.metadata.uid)
        message = f"Node {name} status is now: NodeNotReady"
        recorder = self._context.recorder
        recorder.event(NODES, Node(metadata=metadata), NORMAL, "NodeNotReady", message)

    async def _apply_disruption(self) -> None:
        """Set the eviction rates of the zones by the numbers of healthy nodes."""
        counts = self._tracker.counts()
        found = disruption(self._states, counts, self._rates)
        for zone in self._states.keys() | counts.keys():
            self._metrics.zone(zone, counts.get(zone, Count()))
        for zone in self._states.keys() - counts.keys():
            self._tainter.remove_zone(zone)
        self._states = dict(found.states)
        for zone, rate in found.rates.items():
            self._tainter.set_rate(zone, rate)
        self._all_down = bool(counts) and all(
            state is ZoneState.FULL for state in self._states.values()
        )
        if found.change is Change.ALL_DOWN:
            self._logger.warning("No node is ready: evictions are stopped")
            every = [record.node.metadata.name for record in self._tracker]
            await self._each(every, self._remove_taints)
        elif found.change is Change.RECOVERED:
            self._logger.warning("Some nodes are ready again: evictions are resumed")
            self._tracker.restart_grace_periods(self._clock.monotonic())

    async def _remove_taints(self, record: NodeRecord) -> None:
        """Remove the taints by which the pods of a node are evicted."""
        self._tainter.discard(record.zone, record.node.metadata.name)
        await self._write(record.node, without_no_execute(record.node))

    async def _set_taints(self, record: NodeRecord) -> None:
        """Remove the NoExecute taints of a ready node; enqueue other nodes for taints.

        A node that this check set to Unknown is enqueued, too. The queue reads the node
        again.
        """
        node = record.node
        status = ready_status(node)
        if not status:
            return
        if status == READY or self._all_down:
            if not self._writer.is_stale(node):
                await self._remove_taints(record)
        elif has_opposite(node):
            await self._swap_taints(node)
        elif no_execute_taints(node, self._writer.timestamp()) is None:
            self._tainter.discard(record.zone, node.metadata.name)
        else:
            self._tainter.add(record.zone, node.metadata.name)

    async def _swap_taints(self, node: Node) -> None:
        """Replace a NoExecute taint that does not fit the health of its node.

        Other taints of the node are written at the same time. Raises Conflict if the
        node changes again and again.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            if attempt > 1 or self._writer.is_stale(node):
                node = await self._writer.read(node)
            if not has_opposite(node):
                return
            try:
                now = self._writer.timestamp()
                await self._write(node, no_execute_taints(node, now))
            except Conflict:
                if attempt == _ATTEMPTS:
                    raise
            else:
                return

    async def _write(self, node: Node, taints: tuple[Taint, ...] | None) -> None:
        if taints is not None:
            await self._writer.set_taints(node, taints)

    async def _each(self, names: Sequence[str], action: _Action) -> None:
        """Call an action for each node, some of them concurrently.

        If the API server does not respond, the remaining nodes are left to the next
        check.
        """
        for start in range(0, len(names), _AT_ONCE):
            batch = names[start : start + _AT_ONCE]
            answered = await asyncio.gather(
                *(self._try(name, action) for name in batch)
            )
            if not all(answered):
                for name in names[start + _AT_ONCE :]:
                    self._handlers.requeue(name)
                return

    async def _try(self, name: str, action: _Action) -> bool:
        """Call an action for a node; tell whether the API server has responded.

        If the action fails, the next check repeats it.
        """
        record = self._tracker.get(name)
        if record is None:
            return True
        try:
            await action(record)
        except NotFound:
            return True  # the watch will deliver the deletion
        except Conflict as error:
            self._logger.v(2).info("Node has changed", node=name, err=str(error))
            self._handlers.requeue(name)
        except (APIError, TransportError, ProtocolError) as error:
            self._logger.error("Node not updated", node=name, err=str(error))
            self._handlers.requeue(name)
            return not isinstance(error, TransportError)
        return True


def _ignore(_: str) -> None:
    pass
