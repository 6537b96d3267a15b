"""Computes the health of one node (pure functions).

The time of a heartbeat is the time at which this process sees it, on a monotonic clock.
The times that a kubelet writes are only compared for equality: a node with a wrong
clock is not dead.
"""

from typing import Any, Final

from msgspec import Struct

from controller_manager.api.conditions import find_condition
from controller_manager.api.core.v1 import Node, NodeCondition

UNKNOWN: Final = "Unknown"

_BY_KUBELET: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""The conditions that only the kubelet posts, in the order in which they are added."""


_STOPPED: Final = "NodeStatusUnknown"
_NEVER: Final = "NodeStatusNeverUpdated"
_REASONS: Final = (_STOPPED, _NEVER)
"""The reasons of the conditions that this controller sets to Unknown."""


class NodeHealth(Struct, frozen=True):
    """The last heartbeat of a node that this process has seen (nodeHealthData).

    `seen_at` is in seconds of the monotonic clock. `heartbeat` is the time in the
    condition Ready, `None` without it.
    """

    seen_at: float
    posted: bool
    heartbeat: str | None


class GracePeriods(Struct, frozen=True):
    """The times for which a node may be silent, in seconds: at its start, and later."""

    startup: float
    monitor: float

    def of(self, *, posted: bool) -> float:
        """Return the grace period of a node that has, or has not, posted its status."""
        return self.monitor if posted else self.startup


def ready_condition(node: Node) -> NodeCondition | None:
    """Return the condition Ready, `None` for a node that never posted one."""
    return find_condition(node.status.conditions, "Ready")


def ready_status(node: Node) -> str:
    """Return the status of the condition Ready, empty without one."""
    condition = ready_condition(node)
    return condition.status if condition is not None else ""


def is_silent(node: Node) -> bool:
    """Tell whether a node has the status that this controller sets for silent nodes.

    A kubelet may post Unknown as well, but with another reason.
    """
    condition = ready_condition(node)
    return (
        condition is not None
        and condition.status == UNKNOWN
        and condition.reason in _REASONS
    )


def observe(known: NodeHealth | None, node: Node, now: float, age: float) -> NodeHealth:
    """Return the health of a node, from its former health and its current version.

    For a node with a status, the first observation counts as a heartbeat: a manager
    that has just started must not count the time before as silence. A node without a
    status is silent since its creation (`age`, in seconds). Upstream:
    tryUpdateNodeHealth.
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
    """Return the patch of the conditions of a node that is silent for too long.

    It is empty if the condition Ready is Unknown already. NetworkUnavailable is not
    posted by the kubelet, so it stays. Upstream: tryUpdateNodeHealth.
    """
    if ready_status(node) == UNKNOWN:
        return []
    posted = {each.type: each for each in node.status.conditions or ()}
    return [
        _unknown(kind, node, now)
        for kind in _BY_KUBELET
        if kind not in posted or posted[kind].status != UNKNOWN
    ]


def _unknown(kind: str, node: Node, now: str) -> dict[str, Any]:
    condition = {
        "type": kind,
        "status": UNKNOWN,
        "lastTransitionTime": now,
    }
    if any(each.type == kind for each in node.status.conditions or ()):
        return {
            **condition,
            "reason": _STOPPED,
            "message": "Kubelet stopped posting node status.",
        }
    return {
        **condition,
        "reason": _NEVER,
        "message": "Kubelet never posted node status.",
        "lastHeartbeatTime": node.metadata.creation_timestamp,
    }
