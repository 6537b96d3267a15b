"""The properties of the taint eviction controller."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from controller_manager.api.core.scheduling import Toleration
from controller_manager.api.core.v1 import Node
from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.clock import LoopClock
from controller_manager.controllers.nodes.tainteviction.evictions import (
    Taints,
    no_execute,
    tolerated_seconds,
    used_tolerations,
)
from tests.clusters import EPOCH
from tests.controllers.nodes.tainteviction.workload import TaintUsers
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write
from tests.simulation.state import State

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_ON_THE_WAY: Final = 60.0
"""Seconds that a request may need, in which the taints may change."""

_ROUNDING: Final = 2.0
"""Seconds by which the time of a taint, and that of a write, are imprecise."""

_WHILE: Final = 300.0
"""Seconds after which a pod that does not tolerate a taint has been evicted."""

_MEMORY: Final = 20
"""The number of former taints of a node that are stored."""


class _Seen(msgspec.Struct):
    """The taints of a node for a time, and the begin of the time with any taints."""

    taints: Taints
    tainted_since: datetime
    until: datetime


class TaintEvictionProperties(Properties):
    """It evicts pods that do not tolerate the taints of their node (any more)."""

    controller = "taint-eviction-controller"
    may_write = (
        AllowedWrite(("delete",), "pods"),
        AllowedWrite(("patch",), "pods/status", only(("status", "conditions"))),
    )

    workload = TaintUsers

    def __init__(self, state: State) -> None:
        """Start without having seen a node."""
        super().__init__(state)
        self._seen: dict[str, list[_Seen]] = {}

    def before_write(self) -> None:
        """Store the taints of all nodes."""
        now = LoopClock(EPOCH).now()
        for node in self.state.stored("nodes"):
            self._see(node, now)

    def _see(self, node: JSON, now: datetime) -> None:
        taints = no_execute(msgspec.convert(node, Node, strict=False).spec.taints)
        seen = self._seen.setdefault(node["metadata"]["name"], [])
        if seen and seen[-1].taints == taints:
            seen[-1].until = now
            return
        added = [parse_time(each.time_added) for each in taints if each.time_added]
        since = min([now, *added])
        if seen and seen[-1].taints:
            since = min(since, seen[-1].tainted_since)
        self._seen[node["metadata"]["name"]] = [
            *seen[-_MEMORY:],
            _Seen(taints, since, now),
        ]

    def after_write(self, write: Write) -> Iterator[str]:
        """No pod is evicted that tolerates its node, or before its time is over."""
        pod = write.before
        if (
            write.controller != self.controller
            or write.verb != "delete"
            or write.is_late
            or pod is None
            or pod["metadata"].get("deletionTimestamp")
        ):
            return
        node = pod["spec"].get("nodeName", "")
        now = LoopClock(EPOCH).now()
        recent = [
            each
            for each in self._seen.get(node, ())
            if (now - each.until).total_seconds() < _ON_THE_WAY
        ]
        if recent and not any(_may_evict(pod, each, now) for each in recent):
            yield f"pod {pod['metadata']['name']} is evicted too early"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """No pod is left on a node whose taints it has not tolerated for some time."""
        del managers
        now = LoopClock(EPOCH).now()
        nodes = {each["metadata"]["name"]: each for each in self.state.stored("nodes")}
        for pod in self.state.stored("pods"):
            node = nodes.get(pod["spec"].get("nodeName", ""))
            if node is None or pod["metadata"].get("deletionTimestamp"):
                continue
            born = parse_time(pod["metadata"]["creationTimestamp"])
            if (now - born).total_seconds() < _WHILE:
                continue
            old = tuple(
                each
                for each in msgspec.convert(node, Node, strict=False).spec.taints or ()
                if each.time_added
                and (now - parse_time(each.time_added)).total_seconds() > _WHILE
            )
            if _used(pod, no_execute(old)) is None:
                yield f"pod {pod['metadata']['name']} is left on a tainted node"


def _used(pod: JSON, taints: Taints) -> list[Toleration] | None:
    tolerations = msgspec.convert(
        pod["spec"].get("tolerations") or [], tuple[Toleration, ...]
    )
    return used_tolerations(taints, tolerations, compares_numbers=False)


def _may_evict(pod: JSON, seen: _Seen, now: datetime) -> bool:
    """Tell whether a pod may be evicted because of the taints that a node had."""
    used = _used(pod, seen.taints)
    if used is None:
        return True
    seconds = tolerated_seconds(used)
    if seconds is None:
        return False
    born = parse_time(pod["metadata"]["creationTimestamp"])
    passed = (now - max(seen.tainted_since, born)).total_seconds()
    return passed + _ROUNDING >= seconds


PROPERTIES = TaintEvictionProperties
