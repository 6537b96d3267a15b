"""What the node lifecycle controller promises."""

from collections.abc import Iterator
from typing import Any, Final

from controller_manager.api.times import parse_time
from controller_manager.clock import LoopClock
from controller_manager.controllers.nodes.nodelifecycle.options import (
    NodeLifecycleOptions,
)
from tests.clusters import EPOCH
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write

JSON = dict[str, Any]

_EVICTING: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
)


def _ready(node: JSON | None) -> str:
    conditions = ((node or {}).get("status") or {}).get("conditions") or ()
    return next((e["status"] for e in conditions if e["type"] == "Ready"), "")


def _evicting(node: JSON | None) -> set[tuple[str, str]]:
    taints = ((node or {}).get("spec") or {}).get("taints") or ()
    return {(each["key"], each["effect"]) for each in taints} & set(_EVICTING)


class NodeLifecycleProperties(Properties):
    """It sets conditions and taints of nodes, never of one that is alive."""

    controller = "node-lifecycle-controller"
    may_write = (
        AllowedWrite(
            ("patch",),
            "nodes",
            only(
                ("spec", "taints"),
                ("metadata", "labels", "beta.kubernetes.io/os"),
                ("metadata", "labels", "beta.kubernetes.io/arch"),
            ),
        ),
        # The server writes quantities in their shortest form: 1000 as 1k.
        AllowedWrite(
            ("patch",),
            "nodes/status",
            only(
                ("status", "conditions"),
                ("status", "allocatable"),
                ("status", "capacity"),
            ),
        ),
        AllowedWrite(("patch",), "pods/status", only(("status", "conditions"))),
    )

    def after_write(self, write: Write) -> Iterator[str]:
        """No node with a fresh lease is Unknown; only an unhealthy one is evicted."""
        if write.controller != self.controller or write.target.resource not in (
            "nodes",
            "nodes/status",
        ):
            return
        name = write.target.name
        if _ready(write.after) == "Unknown" != _ready(write.before):
            silence = self._silence(name)
            grace = NodeLifecycleOptions().node_monitor_grace_period
            if silence is not None and 0 <= silence < grace and not write.is_late:
                yield f"node {name} is Unknown after {silence:.0f} s of silence"
        if _evicting(write.after) - _evicting(write.before) and _ready(
            write.before
        ) not in ("False", "Unknown"):
            yield f"node {name} is tainted although it is ready"

    def _silence(self, name: str) -> float | None:
        """Return how long ago a lease was renewed, `None` without one."""
        lease = self.state.find("leases", "kube-node-lease", name)
        if lease is None:
            return None
        silence = LoopClock(EPOCH).now() - parse_time(lease["spec"]["renewTime"])
        return silence.total_seconds()


PROPERTIES = NodeLifecycleProperties
