"""The health of nodes: of one as its conditions show it, and the records of all.

The time of a heartbeat is the monotonic time at which this process sees it. The times
of a kubelet are only compared: a node with a wrong clock is not dead.
"""

import heapq
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.core.v1 import Node, NodeCondition
from controller_manager.api.meta import find_condition

from .topology import Count, is_excluded, zone_of

READY: Final = "True"
UNKNOWN: Final = "Unknown"

_BY_KUBELET: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""The conditions that only the kubelet posts, in the order in which they are added."""


_STOPPED: Final = "NodeStatusUnknown"
_NEVER: Final = "NodeStatusNeverUpdated"
_REASONS: Final = (_STOPPED, _NEVER)
"""The reasons of the conditions that this controller sets to Unknown."""


class NodeHealth(Struct, frozen=True):
    """The last heartbeat of a node that this process has seen (nodeHealthData).

    `seen_at` is in seconds of the monotonic clock; `heartbeat` is that of Ready.
    """

    seen_at: float
    posted: bool
    heartbeat: str | None


class GracePeriods(Struct, frozen=True):
    """The times for which a node may be silent, in seconds: at its start, and later."""

    startup: float
    monitor: float


def ready_condition(node: Node) -> NodeCondition | None:
    """Return the condition Ready, `None` for a node that never posted one."""
    return find_condition(node.status.conditions, "Ready")


def ready_status(node: Node) -> str:
    """Return the status of the condition Ready, empty without one."""
    condition = ready_condition(node)
    return condition.status if condition is not None else ""


def is_silent(node: Node) -> bool:
    """Tell whether a node has the status that this controller sets for silent nodes."""
    condition = ready_condition(node)
    return (
        condition is not None
        and condition.status == UNKNOWN
        and condition.reason in _REASONS
    )


def observe(known: NodeHealth | None, node: Node, now: float, age: float) -> NodeHealth:
    """Return the health of a node, from its former health (tryUpdateNodeHealth).

    The first observation of a status counts as a heartbeat: the time before it is no
    silence. A node without a status is silent for its `age` in seconds.
    """
    condition = ready_condition(node)
    posted = condition is not None
    heartbeat = condition.last_heartbeat_time if condition is not None else None
    if known is None:
        return NodeHealth(now if posted else now - max(age, 0.0), posted, heartbeat)
    if (known.posted, known.heartbeat) == (posted, heartbeat):
        return known
    return NodeHealth(now, posted, heartbeat)


def unknown_conditions(node: Node, now: str) -> list[dict[str, Any]]:
    """Return the patch of the conditions of a silent node (tryUpdateNodeHealth).

    It is empty if Ready is Unknown already. A kubelet posts no NetworkUnavailable.
    """
    if ready_status(node) == UNKNOWN:
        return []
    posted = {each.type: each for each in node.status.conditions or ()}
    stopped = {"reason": _STOPPED, "message": "Kubelet stopped posting node status."}
    never = {
        "reason": _NEVER,
        "message": "Kubelet never posted node status.",
        "lastHeartbeatTime": node.metadata.creation_timestamp,
    }
    return [
        {"type": kind, "status": UNKNOWN, "lastTransitionTime": now}
        | (stopped if kind in posted else never)
        for kind in _BY_KUBELET
        if kind not in posted or posted[kind].status != UNKNOWN
    ]


class NodeRecord(Struct):
    """One node: its last version, its health, its lease, and its status.

    `renewed` is the renew time of the lease, and `renewed_at` the monotonic time at
    which this process saw it; `heard_at` is `None` before the first change that it saw.
    `ready` is the status of the condition Ready, empty without it. `counted_in` is the
    zone that counts the node, `None` if no zone does.
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
        return self.seen_at + (grace.monitor if self.health.posted else grace.startup)


class NodeTracker:
    """All known nodes.

    A heap has the deadlines of healthy nodes: each is checked once in its grace period.
    Nodes that are not ready are checked each time.
    """

    def __init__(self, grace: GracePeriods) -> None:
        self._grace = grace
        self._by_name: dict[str, NodeRecord] = {}
        self._counts: dict[str, list[int]] = {}
        self._deadlines: list[tuple[float, str]] = []
        self.unhealthy: dict[str, None] = {}

    def __iter__(self) -> Iterator[NodeRecord]:
        """Iterate over a snapshot of all records."""
        return iter(list(self._by_name.values()))

    def get(self, name: str) -> NodeRecord | None:
        """Return the record of a node, `None` for a node that is not known."""
        return self._by_name.get(name)

    def add(self, record: NodeRecord) -> None:
        """Add a node."""
        self._by_name[record.node.metadata.name] = record

    def remove(self, name: str) -> None:
        """Forget a node."""
        self.unhealthy.pop(name, None)
        if (record := self._by_name.pop(name, None)) is not None:
            self._uncount(record)

    def renewed(self, name: str, renew_time: str | None, now: float) -> None:
        """Store the renew time of a lease if it has changed."""
        record = self._by_name.get(name)
        if record is not None and renew_time not in (None, record.renewed):
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
