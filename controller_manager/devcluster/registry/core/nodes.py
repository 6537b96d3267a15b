"""Nodes: the machines on which pods run, with their ranges of pod addresses."""

from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Cells,
    Column,
    Strategy,
    age,
    fields_by_path,
)
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.columns import name_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    shown,
)
from controller_manager.devcluster.validation.affinity import TAINT
from controller_manager.devcluster.validation.ip_addresses import (
    NOT_A_RANGE,
    range_version,
)
from controller_manager.devcluster.validation.text import table

# The ranges of addresses that a node has for its pods (ValidateNode).

_SET_ONCE: Final = 'node updates may not change podCIDR except from "" to valid'


def default_ranges(spec: JSON) -> None:
    """Make the older field the first entry of the list, as the conversions do."""
    first, listed = spec.get("podCIDR"), spec.get("podCIDRs") or []
    if first and listed[:1] != [first]:
        spec["podCIDRs"] = [first]
    elif listed:
        spec["podCIDR"] = listed[0]


def validate_ranges(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check that there is one range at most of each address family."""
    ranges, where = spec.get("podCIDRs") or [], f"{path}podCIDRs"
    versions = [range_version(each) for each in ranges]
    for number, version in enumerate(versions):
        if version is None:
            yield invalid(f"{where}[{number}]", shown(ranges[number]), NOT_A_RANGE)
    if None not in versions and len({*versions}) < len(versions):
        detail = "may specify no more than one CIDR for each IP family"
        yield invalid(where, shown({"podCIDRs": ranges}), detail)


def validate_change_of_ranges(spec: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check that ranges which a node has stay as they are."""
    had = old.get("podCIDRs") or []
    if had and had != (spec.get("podCIDRs") or []):
        yield forbidden_field(f"{path}podCIDRs", _SET_ONCE)


# The kind.

_ROLE: Final = "node-role.kubernetes.io/"
_OLDER_ROLE: Final = "kubernetes.io/role"


def _taints(spec: JSON, _: str, __: JSON) -> list[Cause]:
    return _TAINTS.errors(spec, path="metadata.")  # so upstream calls the field


_TAINTS: Final = table(
    """
    taints[]:
      include TAINT
    """,
    TAINT=TAINT,
)
_NODE: Final = table(
    """
    spec:
      hook taints
      hook ranges
    """,
    _taints,
    validate_ranges,
)
_UPDATE: Final = table(
    """
    spec change:
      hook change_of_ranges
    """,
    validate_change_of_ranges,
)


class NodeStrategy(Strategy):
    """Fills in fields that every node has; generated clients require them."""

    rules: ClassVar = _NODE
    update_rules: ClassVar = _UPDATE
    selectable_fields: ClassVar = fields_by_path("spec.unschedulable")
    absent_fields: ClassVar = {"spec.unschedulable": "false"}
    columns: ClassVar = (
        NAME,
        Column("Status"),
        Column("Roles"),
        AGE,
        Column("Version"),
        Column("Internal-IP", priority=1),
        Column("External-IP", priority=1),
        Column("OS-Image", priority=1),
        Column("Kernel-Version", priority=1),
        Column("Container-Runtime", priority=1),
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the ranges of pod addresses."""
        default_ranges(obj.setdefault("spec", {}))

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        status = obj.get("status", {})
        info = status.get("nodeInfo", {})
        of_machine = ("osImage", "kernelVersion", "containerRuntimeVersion")
        return [
            name_of(obj),
            _state(obj),
            ",".join(sorted(_roles(obj))) or NONE,
            age(obj, now),
            info.get("kubeletVersion", ""),
            _address(status, "InternalIP"),
            _address(status, "ExternalIP"),
            *(info.get(each) or UNKNOWN for each in of_machine),
        ]


def _state(node: JSON) -> str:
    """Return whether a node is ready, and whether it is cordoned."""
    conditions = node.get("status", {}).get("conditions", ())
    ready = [each["status"] for each in conditions if each.get("type") == "Ready"]
    state = "Unknown"
    if ready:
        state = "Ready" if ready[-1] == "True" else "NotReady"
    if node.get("spec", {}).get("unschedulable"):
        state += ",SchedulingDisabled"
    return state


def _roles(node: JSON) -> set[str]:
    """Return the roles that the labels of a node name."""
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    return {each for each in (*roles, labels.get(_OLDER_ROLE, "")) if each}


def _address(status: JSON, type_: str) -> str:
    """Return the first address of a type."""
    for each in status.get("addresses", ()):
        if each.get("type") == type_:
            return str(each["address"])
    return NONE


_REFUSALS: Final = {
    "proxy": (
        "nodes/proxy is not served by the development cluster without nodes: start it "
        "with --nodes 1 or more"
    )
}
KIND: Final = kind_of("v1", "nodes", NodeStrategy(), refusals=_REFUSALS)
