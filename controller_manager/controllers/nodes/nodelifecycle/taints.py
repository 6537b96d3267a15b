"""Computes the taints of a node from its conditions (pure functions)."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from controller_manager.api.core.scheduling import Taint
from controller_manager.api.core.v1 import Node

from .node_health import ready_status

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


def no_schedule_taints(node: Node, now: str) -> tuple[Taint, ...] | None:
    """Return all taints of a node, including the NoSchedule taints that it should have.

    `None` if nothing changes. `now` is the time of new taints. Taints with other keys
    or effects stay as they are. Upstream: doNoScheduleTaintingPass.
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

    A node that is not ready has one of two such taints, and a ready node has none.
    `None` if nothing changes. Upstream: doNoExecuteTaintingPass, markNodeAsReachable.
    """
    key = _EXECUTING.get(ready_status(node))
    wanted = [key] if key else []
    return _swapped(node, wanted, _BOTH.difference(wanted), NO_EXECUTE, now)


def without_no_execute(node: Node) -> tuple[Taint, ...] | None:
    """Return all taints of a node except those by which its pods are evicted.

    `None` if nothing changes. Upstream: markNodeAsReachable.
    """
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
    """Return the taints of a node without those unwanted and with those wanted."""
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
