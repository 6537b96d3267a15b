"""What a cluster consists of: namespaces, nodes with their runtimes, components."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver import strategy
from controller_manager.devcluster.apiserver.strategy import Deletion, Strategy
from controller_manager.devcluster.registry.kinds import kind_of
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.names import validate_label
from controller_manager.devcluster.storage import Storage
from controller_manager.devcluster.validation import values
from controller_manager.devcluster.validation.text import table
from controller_manager.devcluster.validation.values import validate_quantity

# ComponentStatus: old clients list it; the list is always empty

COMPONENT_STATUSES: Final = kind_of(
    "v1/componentstatuses",
    printer="""
        Name
        Status: join .conditions[].status
        Message: join .conditions[].message
        Error: join .conditions[].error
        """,
    deprecation="v1 ComponentStatus is deprecated in v1.19+",
)

# Namespace: a scope of names, which is deleted with all its objects


class _NamespaceStrategy(Strategy):
    """A namespace is removed when its spec has no finalizers left."""

    records_deletion: ClassVar = True

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the label with the name, and the phase."""
        metadata = obj["metadata"]
        if name := metadata.get("name"):
            labels = metadata.setdefault("labels", {})
            labels["kubernetes.io/metadata.name"] = name
        obj.setdefault("status", {}).setdefault("phase", "Active")

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Add the finalizer that holds deletion until the namespace is empty."""
        del storage
        obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])

    def mark_deleted(self, obj: JSON, options: Deletion, now: datetime) -> JSON:
        """Return a terminating namespace; raises Refusal."""
        del options
        metadata = dict(obj["metadata"])
        name = metadata["name"]
        if "deletionTimestamp" in metadata:
            why = (
                "The system is ensuring all content is removed from this namespace.  "
                "Upon completion, this namespace will automatically be purged by the "
                "system."
            )
            raise statuses.conflict(NAMESPACES.group, NAMESPACES.plural, name, why)
        metadata["deletionTimestamp"] = format_time(now)
        status = {**obj.get("status", {}), "phase": "Terminating"}
        return {**obj, "metadata": metadata, "status": status}

    def can_be_removed(self, obj: JSON) -> bool:
        """Tell whether the metadata and the spec have no finalizers left."""
        return super().can_be_removed(obj) and not obj.get("spec", {}).get("finalizers")


NAMESPACES: Final = kind_of(
    "v1/namespaces",
    _NamespaceStrategy(),
    check_name=validate_label,
    kept=("spec",),  # only ``finalize`` changes the finalizers
    returns_deleted=True,
    selectable_fields="status.phase",
    printer="Name; Status: .status.phase; Age",
    replace={"finalize": lambda old, new: {**old, "spec": new.get("spec", {})}},
)


# The ranges of addresses that a node has for its pods (ValidateNode)


def _default_ranges(obj: JSON) -> None:
    """Make the older field the first entry of the list, as the conversions do."""
    spec = obj.setdefault("spec", {})
    first, listed = spec.get("podCIDR"), spec.get("podCIDRs") or []
    if first and listed[:1] != [first]:
        spec["podCIDRs"] = [first]
    elif listed:
        spec["podCIDR"] = listed[0]


def _ranges(spec: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    """Check that there is one range at most of each address family."""
    ranges, where = spec.get("podCIDRs") or [], f"{path}podCIDRs"
    versions = [values.range_version(each) for each in ranges]
    for number, version in enumerate(versions):
        if version is None:
            yield statuses.invalid(
                f"{where}[{number}]", statuses.shown(ranges[number]), values.NOT_A_RANGE
            )
    if None not in versions and len({*versions}) < len(versions):
        detail = "may specify no more than one CIDR for each IP family"
        yield statuses.invalid(where, statuses.shown({"podCIDRs": ranges}), detail)


def _change_of_ranges(spec: JSON, path: str, old: JSON) -> Iterator[statuses.Cause]:
    """Check that ranges which a node has stay as they are."""
    had = old.get("podCIDRs") or []
    if had and had != (spec.get("podCIDRs") or []):
        why = 'node updates may not change podCIDR except from "" to valid'
        yield statuses.forbidden_field(f"{path}podCIDRs", why)


# The kind

_ROLE: Final = "node-role.kubernetes.io/"
_TAINTS: Final = table("taints[]:\n  include TAINT")


def _taints(spec: JSON, _: str, __: JSON) -> list[statuses.Cause]:
    return _TAINTS.errors(spec, path="metadata.")  # so upstream calls the field


def _status(node: JSON) -> str:
    conditions = node.get("status", {}).get("conditions", ())
    ready = [each["status"] for each in conditions if each.get("type") == "Ready"]
    state = "Unknown"
    if ready:
        state = "Ready" if ready[-1] == "True" else "NotReady"
    if node.get("spec", {}).get("unschedulable"):
        state += ",SchedulingDisabled"
    return state


def _roles(node: JSON) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return ",".join(sorted(filter(None, roles))) or strategy.NONE


def _address(node: JSON, type_: str) -> str | None:
    addresses = node.get("status", {}).get("addresses", ())
    found = (each["address"] for each in addresses if each.get("type") == type_)
    return next(found, None)


_internal: Final = partial(_address, type_="InternalIP")
_external: Final = partial(_address, type_="ExternalIP")


NODES: Final = kind_of(
    "v1/nodes",
    apply_defaults=_default_ranges,
    absent_fields={"spec.unschedulable": "false"},
    selectable_fields="spec.unschedulable",
    rules="spec:\n  hook taints ranges",
    update_rules="spec change:\n  hook change_of_ranges",
    printer="""
        Name
        Status: status
        Roles: roles
        Age
        Version: .status.nodeInfo.kubeletVersion
        Internal-IP wide: internal or <none>
        External-IP wide: external or <none>
        OS-Image wide: filled .status.nodeInfo.osImage or <unknown>
        Kernel-Version wide: filled .status.nodeInfo.kernelVersion or <unknown>
        Container-Runtime wide: filled .status.nodeInfo.containerRuntimeVersion or <unknown>
        """,  # noqa: E501
    refusals={
        "proxy": (
            "nodes/proxy is not served by the development cluster without nodes: start "
            "it with --nodes 1 or more"
        )
    },
)


def _overhead(overhead: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    """Check the amounts, whose field upstream calls limits."""
    for resource, amount in overhead.get("podFixed", {}).items():
        yield from validate_quantity(amount, f"{path}limits[{resource}]")


RUNTIME_CLASSES: Final = kind_of(
    "node.k8s.io/v1/runtimeclasses",
    rules="""
        handler: label default empty
        overhead:
          hook overhead
        scheduling:
          nodeSelector: labels
          tolerations[]:
            include TOLERATION
        """,
    update_rules="handler: immutable",
    printer="Name; Handler: .handler; Age",
)
