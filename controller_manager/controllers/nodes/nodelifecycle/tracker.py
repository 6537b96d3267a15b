"""Keeps the health of each node, and the numbers of healthy nodes of each zone."""

import heapq
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import Node

from .node_health import GracePeriods, NodeHealth
from .topology import Count, is_excluded, zone_of

READY: Final = "True"


class NodeRecord(Struct):
    """One node: its last version, its health, its lease, and its status.

    `renewed` is the renew time of the lease, and `renewed_at` the time at which this
    process saw it, in seconds of the monotonic clock. `heard_at` is the same time, but
    `None` before the first change that this process saw. `ready` is the status of the
    condition Ready, empty without it. `counted_in` is the zone that counts the node,
    `None` if no zone does.
    """

    node: Node
    health: NodeHealth
    renewed_at: float = 0.0
    renewed: str | None = None
    heard_at: float | None = None
    ready: str = ""
    zone: str = ""
    counted_in: str | None = None
    counted_ready: bool = False
    in_heap: bool = False

    @property
    def seen_at(self) -> float:
        """The time of the last heartbeat."""
        return max(self.health.seen_at, self.renewed_at)

    def dies_at(self, grace: GracePeriods) -> float:
        """Return the time at which the node counts as dead without a heartbeat."""
        return self.seen_at + grace.of(posted=self.health.posted)


class NodeTracker:
    """All known nodes.

    A renewed lease only changes attributes of a record. A heap has the deadlines of
    healthy nodes; each of them is checked once in its grace period. Nodes that are not
    ready are in a set, and are checked each time.
    """

    def __init__(self, grace: GracePeriods) -> None:
        """Start empty."""
        self._grace = grace
        self._by_name: dict[str, NodeRecord] = {}
        self._counts: dict[str, list[int]] = {}
        self._deadlines: list[tuple[float, str]] = []
        self.unhealthy: dict[str, None] = {}

    def __len__(self) -> int:
        """Return the number of known nodes."""
        return len(self._by_name)

    def __iter__(self) -> Iterator[NodeRecord]:
        """Iterate over a snapshot of all records."""
        return iter(list(self._by_name.values()))

    def get(self, name: str) -> NodeRecord | None:
        """Return the record of a node, `None` for a node that is not known."""
        return self._by_name.get(name)

    def add(self, record: NodeRecord) -> None:
        """Add a node."""
        self._by_name[record.node.metadata.name] = record

    def remove(self, name: str) -> NodeRecord | None:
        """Forget a node; return its record."""
        record = self._by_name.pop(name, None)
        self.unhealthy.pop(name, None)
        if record is not None:
            self._uncount(record)
        return record

    def renewed(self, name: str, renew_time: str | None, now: float) -> None:
        """Store the renew time of a lease if it has changed."""
        record = self._by_name.get(name)
        if renew_time is None or record is None:
            return
        if record.renewed != renew_time:
            record.renewed = renew_time
            record.renewed_at = record.heard_at = now

    def restart_grace_periods(self, now: float) -> None:
        """Let the grace period of each node begin now."""
        for record in self._by_name.values():
            record.renewed_at = now

    def discount_pause(self, seconds: float, now: float) -> None:
        """Do not count the last seconds as silence: this process was paused."""
        for record in self._by_name.values():
            record.renewed_at = min(record.seen_at + seconds, now)

    def set_status(self, record: NodeRecord, status: str) -> None:
        """Set the status of a node, and count it in its zone."""
        name = record.node.metadata.name
        record.ready = status
        record.zone = zone_of(record.node)
        self._uncount(record)
        if not is_excluded(record.node):
            self._count(record)
        if status == READY:
            self.unhealthy.pop(name, None)
            self._push_deadline(record)
        else:
            self.unhealthy[name] = None

    def due(self, now: float) -> list[str]:
        """Return the healthy nodes that have been silent for their grace period."""
        found = []
        while self._deadlines and self._deadlines[0][0] < now:
            _, name = heapq.heappop(self._deadlines)
            record = self._by_name.get(name)
            if record is None:
                continue
            record.in_heap = False
            if record.dies_at(self._grace) < now:
                found.append(name)
            elif record.ready == READY:
                self._push_deadline(record)
        return found

    def counts(self) -> Mapping[str, Count]:
        """Return the number of healthy and unhealthy nodes of each zone."""
        return {zone: Count(*each) for zone, each in self._counts.items()}

    def _push_deadline(self, record: NodeRecord) -> None:
        if not record.in_heap:
            record.in_heap = True
            entry = (record.dies_at(self._grace), record.node.metadata.name)
            heapq.heappush(self._deadlines, entry)

    def _count(self, record: NodeRecord) -> None:
        record.counted_in = record.zone
        record.counted_ready = record.ready == READY
        count = self._counts.setdefault(record.zone, [0, 0])
        count[0 if record.counted_ready else 1] += 1

    def _uncount(self, record: NodeRecord) -> None:
        if record.counted_in is None:
            return
        count = self._counts[record.counted_in]
        count[0 if record.counted_ready else 1] -= 1
        if not any(count):
            del self._counts[record.counted_in]
        record.counted_in = None
