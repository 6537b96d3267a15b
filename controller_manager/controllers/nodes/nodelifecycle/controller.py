"""The node lifecycle controller: finds dead nodes (node_lifecycle_controller.go).

The health of the nodes is checked every few seconds (monitorNodeHealth). The pods of
unreachable nodes are marked not ready, because their kubelets cannot.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final

from controller_manager.api.coordination.v1 import LEASE_RENEWALS, LeaseRenewal
from controller_manager.api.core.v1 import NODES, PODS, Node, NodeMeta, Pod
from controller_manager.api.meta import metadata_of
from controller_manager.api.scalars import format_time, parse_time
from controller_manager.client.events.recorder import NORMAL, WARNING
from controller_manager.client.rest import errors
from controller_manager.control.pod_indexes import PODS_BY_NODE
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import DONE, Done, Outcome, failure_of

from . import NodeLifecycleOptions, health, taints, topology
from .metrics import NodeLifecycleMetrics

Action = Callable[[health.NodeRecord], Awaitable[None]]

NODE_LEASES: Final = "kube-node-lease"
"""The namespace of the leases of nodes; a lease has the name of its node."""

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

_FALSE: Final = "False"


def init_node_lifecycle_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (newNodeLifecycleController)."""
    writer = taints.NodeWriter(context)
    monitor = NodeMonitor(context, writer)
    tainter = taints.NoScheduleTainter(context, writer)
    workers, pods, evictions = context.workers, monitor.pods, monitor.tainter
    return WorkerGroup(
        workers(tainter.queue, tainter.sync, 8, tainter.enqueue_all),
        workers(pods.queue, pods.sync, 4),
        workers(evictions.queue, evictions.sync, 1),
        workers(monitor.queue, monitor.check_nodes, 1, monitor.start),
    )


class NodeMonitor:
    """Finds the nodes that have died, and those that are ready again.

    A check costs time only for nodes that have changed, that are not ready, or whose
    grace period is over. Events before `start` are ignored.
    """

    def __init__(self, context: ControllerContext, writer: taints.NodeWriter) -> None:
        options = context.config.of(NodeLifecycleOptions)
        self._client = context.client
        self._clock = context.clock
        self._server_clock = context.server_clock
        self._informers = context.informers
        self._logger = context.logger
        self._recorder = context.recorder
        self._period = max(context.config.generic.node_monitor_period, _LEAST_PERIOD)
        self._grace = health.GracePeriods(
            startup=options.node_startup_grace_period,
            monitor=options.node_monitor_grace_period,
        )
        self._rates = topology.Rates(
            normal=options.node_eviction_rate,
            secondary=options.secondary_node_eviction_rate,
            large_size=options.large_cluster_size_threshold,
            unhealthy_part=options.unhealthy_zone_threshold,
        )
        self._writer = writer
        self.tainter = taints.NoExecuteTainter(
            context, writer, self._rates.normal, self.renews_lease
        )
        self._metrics = context.metrics.of(NodeLifecycleMetrics)
        self.queue = context.queue("node_lifecycle_controller_monitor")
        self._tracker = health.NodeTracker(self._grace)
        self._states: dict[str, topology.ZoneState] = {}
        self._all_down = False
        self._checked_at: float | None = None
        self._nodes = context.lister(NODES)
        self._leases = context.lister(LEASE_RENEWALS)
        self._changed: dict[str, None] = {}
        self._is_started = False
        context.informers.informer(NODES).add_handler(
            Handler(self._note, lambda _, node: self._note(node), self._note)
        )
        context.informers.informer(LEASE_RENEWALS).add_handler(
            Handler(self._renewed, lambda _, lease: self._renewed(lease))
        )
        self.pods = PodMarker(context, self.is_unreachable)

    # Changes of nodes and of their leases.

    def _note(self, node: Node) -> None:
        if self._is_started:
            self._changed[node.metadata.name] = None

    def _renewed(self, lease: LeaseRenewal) -> None:
        metadata = lease.metadata
        if metadata.namespace == NODE_LEASES:
            now = self._clock.monotonic()
            self._tracker.renewed(metadata.name, lease.spec.renew_time, now)

    def start(self) -> Iterator[None]:
        """Begin to collect changes; all nodes count as changed."""
        self._is_started = True
        self._changed = dict.fromkeys(self._nodes.keys())
        self.queue.add("nodes")
        yield

    def is_unreachable(self, name: str) -> bool:
        """Tell whether the status of a node is unknown."""
        record = self._tracker.get(name)
        return record is not None and record.ready == health.UNKNOWN

    # Checks.

    async def check_nodes(self, key: str) -> Outcome:  # noqa: ARG002 - there is one
        """Check the nodes that may need a write; requeue after the period."""
        failed = await failure_of(self._check_nodes(), self._period)
        return failed or Done(self._period)

    async def _check_nodes(self) -> None:
        began = self._clock.monotonic()
        if pause := self._pause_before(began):
            self._tracker.discount_pause(pause, began)
        changed, self._changed = self._changed, {}
        existing = [name for name in changed if self._update(name)]
        due = self._tracker.due(began)
        names = list(dict.fromkeys((*existing, *self._tracker.unhealthy, *due)))
        dead = await self._check_health(names)
        await self._each(dead, self._mark_unknown)
        await self._apply_disruption()
        await self._each(names, self._set_taints)
        self._checked_at = self._clock.monotonic()
        self._metrics.all_nodes_seconds.observe(self._checked_at - began)

    def _pause_before(self, now: float) -> float:
        """Return the seconds for which this process was paused, 0 if it was not.

        It has not read the heartbeats of that time: a pause is no silence of nodes.
        """
        last = self._checked_at
        late = 0.0 if last is None else now - last - self._period
        return late if late > self._period + _SLACK else 0.0

    def _forget(self, record: health.NodeRecord) -> None:
        self.tainter.discard(record.zone, record.node.metadata.name)

    def _update(self, name: str) -> bool:
        """Make, update or remove the record of a node; tell whether it exists."""
        node = self._nodes.by_key(name)
        record = self._tracker.get(name)
        uid = node.metadata.uid if node is not None else None
        if record is not None and record.node.metadata.uid != uid:
            self._tracker.remove(name)
            text = f"event: Removing Node {name} from Controller"
            self._event(record.node, "RemovingNode", text)
            self._forget(record)
            record = None
        if node is None:
            return False
        now = self._clock.monotonic()
        if record is None:
            self._add(node, now)
        else:
            record.node = node
            record.health = health.observe(record.health, node, now, 0)
        return True

    def _add(self, node: Node, now: float) -> None:
        name = node.metadata.name
        observed = health.observe(None, node, now, self._age(node))
        record = health.NodeRecord(node, observed, zone=topology.zone_of(node))
        self._tracker.add(record)
        lease = self._leases.get(NODE_LEASES, name)
        if lease is not None:
            # The time of the renewal is unknown: the grace period begins now, but the
            # renewal does not count as a change.
            record.renewed, record.renewed_at = lease.spec.renew_time, now
        text = f"event: Registered Node {name} in Controller"
        self._event(node, "RegisteredNode", text)

    def _age(self, node: Node) -> float:
        """Return the age of a node in seconds, by the clock of the API server."""
        created = node.metadata.creation_timestamp
        if created is None:
            return 0.0
        return (self._server_clock.now() - parse_time(created)).total_seconds()

    def _event(self, node: Node, reason: str, text: str) -> None:
        # Upstream's reference to the node has no version.
        name = node.metadata.name
        about = Node(metadata=NodeMeta(name=name, uid=node.metadata.uid))
        self._recorder.event(NODES, about, NORMAL, reason, f"Node {name} {text}")

    async def _check_health(self, names: Iterable[str]) -> list[str]:
        dead = []
        for number, name in enumerate(names):
            record = self._tracker.get(name)
            if record is not None and self._check_health_of(record):
                dead.append(name)
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
        return dead

    def _check_health_of(self, record: health.NodeRecord) -> bool:
        """Update the status of a node; tell whether it is silent for too long."""
        zone = topology.zone_of(record.node)
        if zone != record.zone:
            self._forget(record)
        self.tainter.add_zone(zone)
        if self._writer.is_stale(record.node):
            self._changed[record.node.metadata.name] = None
            return False
        status = health.ready_status(record.node)
        if status == health.UNKNOWN and record.ready != health.UNKNOWN:
            self.pods.queue.add(record.node.metadata.name)
        self._tracker.set_status(record, status)
        is_dead = record.dies_at(self._grace) < self._clock.monotonic()
        return is_dead and status != health.UNKNOWN

    async def _mark_unknown(self, record: health.NodeRecord) -> None:
        """Set the conditions of a silent node to Unknown.

        Raises Conflict if the node has changed: then it may have posted its status.
        """
        name, node = record.node.metadata.name, record.node
        began = self._clock.monotonic()
        if await self._is_alive(record):
            self._tracker.set_status(record, record.ready)
            return
        conditions = health.unknown_conditions(node, self._writer.timestamp())
        patch = {"status": {"conditions": conditions}}
        record.node = await self._writer.patch(node, patch, "status")
        seen_at = record.health.seen_at
        record.health = health.observe(record.health, record.node, seen_at, 0)
        if record.ready == health.READY:
            self._event(node, "NodeNotReady", "status is now: NodeNotReady")
        self._tracker.set_status(record, health.UNKNOWN)
        self._changed[name] = None
        self.pods.queue.add(name)
        self._metrics.node_seconds.observe(self._clock.monotonic() - began)

    async def _apply_disruption(self) -> None:
        counts = self._tracker.counts()
        found = topology.disruption(self._states, counts, self._rates)
        for zone in self._states.keys() | counts.keys():
            self._metrics.zone(zone, counts.get(zone, topology.Count()))
        for zone in self._states.keys() - counts.keys():
            self.tainter.remove_zone(zone)
        self._states = dict(found.states)
        for zone, rate in found.rates.items():
            self.tainter.set_rate(zone, rate)
        self._all_down = found.is_down
        if found.is_down and not found.was_down:
            self._logger.warning("No node is ready: evictions are stopped")
            every = [record.node.metadata.name for record in self._tracker]
            await self._each(every, self._remove_taints)
        elif found.was_down and not found.is_down:
            self._logger.warning("Some nodes are ready again: evictions are resumed")
            self._tracker.restart_grace_periods(self._clock.monotonic())

    async def _remove_taints(self, record: health.NodeRecord) -> None:
        self._forget(record)
        kept = taints.without_no_execute(record.node)
        if kept is not None:
            await self._writer.set_taints(record.node, kept)

    async def _set_taints(self, record: health.NodeRecord) -> None:
        """Remove the NoExecute taints of a ready node; enqueue another one."""
        node = record.node
        status = health.ready_status(node)
        if not status:
            return
        if status == health.READY or self._all_down:
            if not self._writer.is_stale(node):
                await self._remove_taints(record)
        elif taints.has_opposite(node):
            await self._swap_taints(node)
        elif taints.no_execute_taints(node, self._writer.timestamp()) is None:
            self._forget(record)
        else:
            self.tainter.add(record.zone, node.metadata.name)

    async def _swap_taints(self, node: Node) -> None:
        """Replace a NoExecute taint that does not fit the health of its node.

        Raises Conflict if the node changes again and again.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            if attempt > 1 or self._writer.is_stale(node):
                node = await self._client.get(NODES, "", node.metadata.name)
            swapped = taints.no_execute_taints(node, self._writer.timestamp())
            if not taints.has_opposite(node) or swapped is None:
                return
            try:
                await self._writer.set_taints(node, swapped)
            except errors.Conflict:
                if attempt == _ATTEMPTS:
                    raise
            else:
                return

    async def _each(self, names: Sequence[str], action: Action) -> None:
        """Call an action for each node, some of them concurrently.

        If the API server does not respond, the next check does the remaining nodes.
        """
        for start in range(0, len(names), _AT_ONCE):
            batch = names[start : start + _AT_ONCE]
            tries = (self._try(name, action) for name in batch)
            if not all(await asyncio.gather(*tries)):
                for name in names[start + _AT_ONCE :]:
                    self._changed[name] = None
                return

    async def _try(self, name: str, action: Action) -> bool:
        """Call an action for a node, in the next check, too, if it fails.

        Return False if the API server has not responded.
        """
        record = self._tracker.get(name)
        if record is None:
            return True
        try:
            await action(record)
        except errors.NotFound:
            return True  # the watch will deliver the deletion
        except errors.Conflict as error:
            self._logger.v(2).info("Node has changed", node=name, err=str(error))
            self._changed[name] = None
        except (errors.APIError, errors.TransportError, errors.ProtocolError) as error:
            self._logger.error("Node not updated", node=name, err=str(error))
            self._changed[name] = None
            return not isinstance(error, errors.TransportError)
        return True

    # Leases.

    async def _is_alive(self, record: health.NodeRecord) -> bool:
        """Tell whether a node has sent a heartbeat within its grace period.

        Its lease is read before it counts as dead: a watch may be silent.
        """
        if record.dies_at(self._grace) < self._clock.monotonic():
            await self._read_lease(record)
        return record.dies_at(self._grace) >= self._clock.monotonic()

    async def renews_lease(self, name: str) -> bool:
        """Tell whether a node renews its lease, although its status is still Unknown.

        Then its kubelet runs again. Upstream does not check that.
        """
        record = self._tracker.get(name)
        if record is None or not health.is_silent(record.node):
            return False
        if not self._is_renewed(record):
            await self._read_lease(record)
        return self._is_renewed(record)

    def _is_renewed(self, record: health.NodeRecord) -> bool:
        """Tell whether this process saw a renewed lease within the grace period."""
        seen_at, now = record.heard_at, self._clock.monotonic()
        return seen_at is not None and now - seen_at <= self._grace.monitor

    async def _read_lease(self, record: health.NodeRecord) -> None:
        """Read the lease of a node, and store a renewal; a watch may have shown it."""
        name = record.node.metadata.name
        lease = await self._informers.read(LEASE_RENEWALS, NODE_LEASES, name)
        if lease is None or lease.spec.renew_time in (None, record.renewed):
            return
        self._logger.warning(
            "The API server has a renewed lease that the cache does not show", node=name
        )
        self._renewed(lease)


def may_be_ready(pod: Pod) -> bool:
    """Tell whether a pod has the condition Ready, and it is not False."""
    return any(
        each.type == "Ready" and each.status != _FALSE
        for each in pod.status.conditions or ()
    )


class PodMarker:
    """Sets the condition Ready of the pods of unreachable nodes to False.

    The node is the key of the queue. A kubelet that posts that its node is not ready
    updates its pods itself. Upstream: MarkPodsNotReady, processPod.
    """

    def __init__(
        self, context: ControllerContext, is_unreachable: Callable[[str], bool]
    ) -> None:
        self._client = context.client
        self._clock = context.server_clock
        self._recorder = context.recorder
        self._is_unreachable = is_unreachable
        self._pods = context.lister(PODS, PODS_BY_NODE)
        self.queue = context.queue("node_lifecycle_controller_pods")
        context.informers.informer(PODS).add_handler(
            Handler(
                on_add=self._bound,
                on_update=lambda _, new: self._bound(new),
                depends_on=DependsOn(
                    "spec.nodeName", reading=("status.conditions[Ready]",)
                ),
            )
        )

    async def sync(self, node: str) -> Outcome:
        """Mark the pods of a node, as long as it is unreachable."""
        for pod in filter(may_be_ready, self._pods.by_index(PODS_BY_NODE, node)):
            if not self._is_unreachable(node):
                return DONE
            await self._mark(pod)
        return DONE

    async def _mark(self, pod: Pod) -> None:
        now = format_time(self._clock.now())
        condition = {"type": "Ready", "status": _FALSE, "lastTransitionTime": now}
        patch = {"status": {"conditions": [condition]}}
        what = (metadata_of(PODS), pod, patch)
        try:
            await self._client.patch_exactly(
                *what, subresource="status", same_version=True
            )
        except errors.NotFound:
            return
        self._recorder.event(PODS, pod, WARNING, "NodeNotReady", "Node is not ready")

    def _bound(self, pod: Pod) -> None:
        name = pod.spec.node_name
        if name and self._is_unreachable(name) and may_be_ready(pod):
            self.queue.add(name)
