"""Node: a machine on which pods run."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.core.node_ranges import (
    default_ranges,
    validate_change_of_ranges,
    validate_ranges,
)
from controller_manager.devcluster.kinds.proxy import proxy_of
from controller_manager.devcluster.server.kind import Kind, status_of
from controller_manager.devcluster.server.statuses import Cause
from controller_manager.devcluster.server.strategy import Strategy, fields_by_path
from controller_manager.devcluster.server.tables import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    age,
)

JSON = dict[str, Any]

_INFO: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class NodeStrategy(Strategy):
    """Fills in fields that every node has; generated clients require them."""

    selectable_fields: ClassVar = fields_by_path("spec.unschedulable")
    absent_fields: ClassVar = {"spec.unschedulable": "false"}
    columns: ClassVar = (
        NAME,
        Column("Status"),
        Column("Roles"),
        AGE,
        Column("Version"),
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the daemon endpoints and the node info."""
        default_ranges(obj.setdefault("spec", {}))
        status = obj.setdefault("status", {})
        status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
        given = status.get("nodeInfo") or {}
        status["nodeInfo"] = {**dict.fromkeys(_INFO, ""), **given}

    def mutate_posted(self, obj: JSON) -> None:
        """Taint a new node as not ready (plugin/pkg/admission/nodetaint).

        The node lifecycle controller removes the taint. Nodes of the development
        cluster itself have no such taint: they work without that controller.
        """
        spec = obj.get("spec") or {}
        taints = spec.get("taints") or []
        if not any(_NOT_READY.items() <= each.items() for each in taints):
            obj["spec"] = {**spec, "taints": [*taints, _NOT_READY]}

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the ranges for pods."""
        return validate_ranges(obj["spec"])

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the ranges for pods were not changed."""
        return validate_change_of_ranges(old.get("spec", {}), new["spec"])

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        conditions = obj.get("status", {}).get("conditions", [])
        ready = any(
            each.get("type") == "Ready" and each.get("status") == "True"
            for each in conditions
        )
        status = "Ready" if ready else "NotReady"
        if obj.get("spec", {}).get("unschedulable"):
            status += ",SchedulingDisabled"
        version = obj.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", "")
        return [name_of(obj), status, NONE, age(obj, now), version]


KIND: Final = Kind(
    "",
    "v1",
    "Node",
    "nodes",
    namespaced=False,
    model="V1Node",
    short_names=("no",),
    subresources=(proxy_of("NodeProxyOptions"), status_of("Node")),
    strategy=NodeStrategy(),
)
