"""Judges the health of one node (pure functions).

The time of a sign of life is the moment at which this process sees it, on a clock
that never goes back. The times that a kubelet writes are only compared for equality:
a node whose clock is wrong is not dead.
"""

from typing import Any, Final

from msgspec import Struct

from controller_manager.api.core.v1 import Node, NodeCondition

UNKNOWN: Final = "Unknown"

_BY_KUBELET: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""The conditions that only the kubelet posts, in the order in which they are made."""


_STOPPED: Final = "NodeStatusUnknown"
_NEVER: Final = "NodeStatusNeverUpdated"
_REASONS: Final = (_STOPPED, _NEVER)
"""The reasons of conditions that are Unknown because a node is silent."""


class NodeHealth(Struct, frozen=True):
    """The last health of life of a node that this process has seen.

    `seen_at` is in seconds of the monotonic clock. `heartbeat` is that of the
    condition Ready, `None` without one.
    """

    seen_at: float
    posted: bool
    heartbeat: str | None


class GracePeriods(Struct, frozen=True):
    """How long a node may be silent, in seconds: after its start, and later."""

    startup: float
    monitor: float

    def of(self, *, posted: bool) -> float:
        """Return that of a node that has, or has not, posted its status yet."""
        return self.monitor if posted else self.startup


def ready_condition(node: Node) -> NodeCondition | None:
    """Return the condition Ready, `None` for a node that never posted one."""
    for each in node.status.conditions or ():
        if each.type == "Ready":
            return each
    return None


def ready_status(node: Node) -> str:
    """Return the status of the condition Ready, empty without one."""
    condition = ready_condition(node)
    return condition.status if condition is not None else ""


def is_silent(node: Node) -> bool:
    """Tell whether a node has the status that is written for a silent one.

    A kubelet may post Unknown as well, and then gives another reason.
    """
    condition = ready_condition(node)
    return (
        condition is not None
        and condition.status == UNKNOWN
        and condition.reason in _REASONS
    )


def observe(known: NodeHealth | None, node: Node, now: float, age: float) -> NodeHealth:
    """Return the health of life after a look at a node.

    A node with a status has given one when it is first seen: a manager that has just
    started has seen nothing yet, and does not take that for silence. A node that never
    posted one is as silent as it is old (`age`, in seconds). Upstream:
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
    """Return the patch of the conditions of a node that has been silent for too long.

    Empty if its condition Ready is Unknown already. NetworkUnavailable is not the
    kubelet's, so it stays. Upstream: tryUpdateNodeHealth.
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
