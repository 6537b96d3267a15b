"""The kinds of the group scheduling.k8s.io: priorities, and pods that belong together.

The scheduler of the development cluster does not schedule the pods of a group together.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.apiserver.strategy import Deletion, Strategy
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden,
    forbidden_field,
)
from controller_manager.devcluster.storage import Storage
from controller_manager.devcluster.validation.text import table

from .kinds import fixed_uid, kind_of

# Priority classes

LOWER_PRIORITY: Final = "PreemptLowerPriority"
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


class _PriorityClassStrategy(Strategy):
    """Keeps the classes of the system."""

    def mark_deleted(self, obj: JSON, options: Deletion, now: datetime) -> JSON:
        """Return a deleted class; raises Refusal for those of the system."""
        if (name := obj["metadata"]["name"]) in _SYSTEM:
            why = "this is a system priority class and cannot be deleted"
            raise forbidden(PRIORITY_CLASSES.group, PRIORITY_CLASSES.plural, name, why)
        return super().mark_deleted(obj, options, now)


PRIORITY_CLASSES: Final = kind_of(
    "scheduling.k8s.io/v1/priorityclasses",
    _PriorityClassStrategy(),
    counts_generations=True,
    defaults={"preemptionPolicy": LOWER_PRIORITY},
    rules="""
        hook system_name
        value: forbidden if too_high
          "maximum allowed value of a user defined priority is 1000000000"
        preemptionPolicy: enum PreemptLowerPriority Never
        """,
    update_rules="""
        value: kept "may not be changed in an update."
        preemptionPolicy: immutable
        """,
    printer="""
        Name
        Value integer: .value
        Global-Default boolean: .globalDefault
        Age
        PreemptionPolicy: .preemptionPolicy
        """,
)


def find_priority_class(storage: Storage, name: str) -> JSON | None:
    """Return the class of that name, the default one for no name."""
    collection = storage.collection(PRIORITY_CLASSES.resource)
    if name:
        stored = collection.get(("", name))
        return stored.obj if stored is not None else None
    defaults = [each.obj for each in collection if each.obj.get("globalDefault")]
    return min(defaults, key=lambda each: int(each["value"]), default=None)


def add_system_classes(objects: Objects) -> None:
    """Store the classes of the system that do not exist.

    Upstream: PostStartHook of registry/scheduling/rest.
    """
    for name, (value, description) in _SYSTEM.items():
        if objects.has(PRIORITY_CLASSES, "", name):
            continue
        metadata = {
            "name": name,
            "uid": fixed_uid(name),
            "creationTimestamp": format_time(objects.clock.now()),
            "generation": 1,
        }
        obj = {"metadata": metadata, "value": value, "description": description}
        PRIORITY_CLASSES.apply_defaults(obj)
        objects.put(PRIORITY_CLASSES, ("", name), obj)


# Groups of pods

_POLICY: Final = table("""
    basic: required at self if lacks basic gang
      "must specify one of: `basic`, `gang`"
    self: invalid if has basic and has gang
      "must specify exactly one of: `basic`, `gang`"
    when lacks basic:
      gang:
        minCount: at-least 1 default 0 "must be greater than zero"
    """)
"""How a group of pods is scheduled."""

POD_GROUPS: Final = kind_of(
    "scheduling.k8s.io/v1alpha2/podgroups",
    defaults={"spec": {"disruptionMode": "Pod"}},
    rules="""
        spec:
          schedulingPolicy always:
            include POLICY
        """,
    update_rules="""
        spec change:
          disruptionMode, podGroupTemplateRef, priority: immutable
          priorityClassName, resourceClaims: immutable
          schedulingConstraints, schedulingPolicy: immutable
        """,
    printer="Name; Age",
)


def _named(template: JSON) -> JSON:
    return {"name": template.get("name", "")}


WORKLOADS: Final = kind_of(
    "scheduling.k8s.io/v1alpha2/workloads",
    rules="""
        spec:
          controllerRef:
            kind, name: required
          podGroupTemplates: required most 8
          podGroupTemplates[]:
            name: unique pointer at self show named
            name: label default empty
            schedulingPolicy always:
              include POLICY
        """,
    # An absent reference to a controller may be set later.
    update_rules="""
        spec change:
          controllerRef: immutable if outer has controllerRef
          podGroupTemplates: immutable
        """,
    printer="Name; Age",
)
