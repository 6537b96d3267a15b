"""The properties of the node lifecycle controller."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.clock import LoopClock
from tests.clusters import EPOCH
from tests.controllers.nodes.nodelifecycle.workload import NodeUsers
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_ALIVE: Final = 40.0
"""Seconds for which a lease is fresh: kubelets say so in it. A node may be silent for
ten seconds more before it counts as dead."""

_WHILE: Final = 60.0
"""Seconds within which a node that is ready loses its taints."""

_UNHEALTHY: Final = {
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
}

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


def _unreachable(node: JSON | None) -> bool:
    return _EVICTING[1] in _evicting(node)


def _is_long_ready(node: JSON) -> bool:
    for each in node["status"].get("conditions") or ():
        if each["type"] == "Ready" and each["status"] == "True":
            age = LoopClock(EPOCH).now() - parse_time(each["lastTransitionTime"])
            return age.total_seconds() > _WHILE
    return False


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

    workload = NodeUsers

    def after_write(self, write: Write) -> Iterator[str]:
        """No node with a fresh lease gets Unknown, nor the taint of silent nodes."""
        if write.controller != self.controller or write.target.resource not in (
            "nodes",
            "nodes/status",
        ):
            return
        name = write.target.name
        silence = self._silence(name)
        is_fresh = silence is not None and silence < _ALIVE and not write.is_late
        if is_fresh and _ready(write.after) == "Unknown" != _ready(write.before):
            yield f"node {name} is Unknown after {silence:.0f} s of silence"
        if is_fresh and _unreachable(write.after) and not _evicting(write.before):
            yield f"node {name} is evicted after {silence:.0f} s of silence"
        if _evicting(write.after) - _evicting(write.before) and _ready(
            write.before
        ) not in ("False", "Unknown"):
            yield f"node {name} is tainted although it is ready"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """No node that has been ready for some time has a taint of unhealthy nodes."""
        del managers
        for node in self.state.stored("nodes"):
            taints = {each["key"] for each in node["spec"].get("taints") or ()}
            if (wrong := sorted(taints & _UNHEALTHY)) and _is_long_ready(node):
                yield f"node {node['metadata']['name']} is ready and has {wrong}"

    def _silence(self, name: str) -> float | None:
        """Return how long ago a lease was renewed, `None` without one."""
        lease = self.state.find("leases", "kube-node-lease", name)
        if lease is None:
            return None
        silence = LoopClock(EPOCH).now() - parse_time(lease["spec"]["renewTime"])
        return silence.total_seconds()


PROPERTIES = NodeLifecycleProperties
