"""PriorityClass: a name for the priority of pods."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.fixed_uids import fixed_uid
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden,
    forbidden_field,
    invalid,
    not_supported,
    shown,
)
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.rest.deletion import Deletion
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.server.storage.storage import Storage

LOWER_PRIORITY: Final = "PreemptLowerPriority"
_RESOURCE: Final = "priorityclasses.scheduling.k8s.io"

_POLICIES: Final = (LOWER_PRIORITY, "Never")
_HIGHEST: Final = 1_000_000_000
_RESERVED: Final = (
    "priority class names with 'system-' prefix are reserved for system use only"
)
_SYSTEM: Final = {
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2_000_000_000,
        (
            "Used for system critical pods that must run in the cluster, but can be "
            "moved to another node if necessary."
        ),
    ),
}
"""The classes that every cluster has: their values and descriptions."""


class PriorityClassStrategy(Strategy):
    """The value and the preemption policy are immutable."""

    counts_generations: ClassVar = True
    columns: ClassVar = (
        NAME,
        Column("Value", "integer"),
        Column("Global-Default", "boolean"),
        AGE,
        Column("PreemptionPolicy"),
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the preemption policy."""
        obj.setdefault("preemptionPolicy", LOWER_PRIORITY)

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the name, the value, and the preemption policy."""
        name, policy = obj["metadata"].get("name", ""), obj["preemptionPolicy"]
        causes = []
        if name.startswith("system-"):
            if problem := _problem_of_system_class(name, obj):
                why = f"{_RESERVED}. error: {problem}"
                causes.append(forbidden_field("metadata.name", why))
        elif obj["value"] > _HIGHEST:
            why = f"maximum allowed value of a user defined priority is {_HIGHEST}"
            causes.append(forbidden_field("value", why))
        if policy not in _POLICIES:
            value = shown(policy)
            causes.append(not_supported("preemptionPolicy", value, _POLICIES))
        return causes

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that value and preemption policy stay."""
        causes = []
        if old["value"] != new["value"]:
            detail = "may not be changed in an update."
            causes.append(forbidden_field("value", detail))
        policy = new["preemptionPolicy"]
        if old["preemptionPolicy"] != policy:
            detail = "field is immutable"
            causes.append(invalid("preemptionPolicy", shown(policy), detail))
        return causes

    def mark_deleted(self, obj: JSON, options: Deletion, now: datetime) -> JSON:
        """Return a deleted class; raises Refusal for those of the system."""
        if (name := obj["metadata"]["name"]) in _SYSTEM:
            why = "this is a system priority class and cannot be deleted"
            raise forbidden(KIND.group, KIND.plural, name, why)
        return super().mark_deleted(obj, options, now)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [
            name_of(obj),
            obj["value"],
            bool(obj.get("globalDefault")),
            age(obj, now),
            obj["preemptionPolicy"],
        ]


def _problem_of_system_class(name: str, obj: JSON) -> str:
    """Return why a class is no system class, "" if it is one."""
    if name not in _SYSTEM:
        return f"{name} is not a known system priority class"
    if obj["value"] != (value := _SYSTEM[name][0]):
        return f"value of {name} PriorityClass must be {value}"
    if obj.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""


def find_priority_class(storage: Storage, name: str) -> JSON | None:
    """Return the class of that name, the default one for no name."""
    collection = storage.collection(_RESOURCE)
    if name:
        stored = collection.get(("", name))
        return stored.obj if stored is not None else None
    defaults = [each.obj for each in collection if each.obj.get("globalDefault")]
    return min(defaults, key=lambda each: int(each["value"]), default=None)


KIND: Final = kind_of(
    "scheduling.k8s.io/v1", "priorityclasses", PriorityClassStrategy()
)


def add_system_classes(objects: Objects) -> None:
    """Store the classes of the system that do not exist.

    Upstream: PostStartHook of registry/scheduling/rest.
    """
    for name, (value, description) in _SYSTEM.items():
        if objects.has(KIND, "", name):
            continue
        metadata = {
            "name": name,
            "uid": fixed_uid(name),
            "creationTimestamp": format_time(objects.clock.now()),
            "generation": 1,
        }
        obj = {"metadata": metadata, "value": value, "description": description}
        KIND.apply_defaults(obj)
        objects.put(KIND, ("", name), obj)
