"""PriorityClass: a name for the priority of pods."""

from collections.abc import Iterator
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
from controller_manager.devcluster.server.storage import Storage
from controller_manager.devcluster.validation.text import table

LOWER_PRIORITY: Final = "PreemptLowerPriority"
_RESOURCE: Final = "priorityclasses.scheduling.k8s.io"

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


def _system_name(obj: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check that only a class of the system has a reserved name."""
    name, why = obj["metadata"].get("name", ""), ""
    if not name.startswith("system-"):
        return
    if name not in _SYSTEM:
        why = f"{name} is not a known system priority class"
    elif obj["value"] != (value := _SYSTEM[name][0]):
        why = f"value of {name} PriorityClass must be {value}"
    elif obj.get("globalDefault"):
        why = f"globalDefault of {name} PriorityClass must be false"
    if why:
        yield forbidden_field(f"{path}metadata.name", f"{_RESERVED}. error: {why}")


def _too_high(obj: JSON, _: JSON) -> bool:
    is_system = obj["metadata"].get("name", "").startswith("system-")
    return obj["value"] > _HIGHEST and not is_system


_RULES: Final = table(
    """
    hook system_name
    value: forbidden if too_high
      "maximum allowed value of a user defined priority is 1000000000"
    preemptionPolicy: enum PreemptLowerPriority Never
    """,
    _system_name,
    _too_high,
)
_UPDATE: Final = table(
    """
    value: kept "may not be changed in an update."
    preemptionPolicy: immutable
    """
)


class PriorityClassStrategy(Strategy):
    """The value and the preemption policy are immutable."""

    counts_generations: ClassVar = True
    rules: ClassVar = _RULES
    update_rules: ClassVar = _UPDATE
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
