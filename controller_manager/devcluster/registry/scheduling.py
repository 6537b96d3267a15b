"""Priorities of pods, groups of pods, and budgets for their disruptions.

The scheduler of the development cluster does not schedule the pods of a group together.
Upstream of budgets: pkg/apis/policy/validation, registry/core/pod/storage/eviction.go.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.apiserver.strategy import Deletion, Strategy
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.storage import Storage
from controller_manager.devcluster.validation.text import table
from controller_manager.devcluster.validation.values import (
    percent,
    selects,
    validate_int_or_percent,
)

from .kinds import (
    fixed_uid,
    kind_of,
    true_conditions,
)

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


def _system_name(obj: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
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
        yield statuses.forbidden_field(
            f"{path}metadata.name", f"{_RESERVED}. error: {why}"
        )


def _too_high(obj: JSON, _: JSON) -> bool:
    is_system = obj["metadata"].get("name", "").startswith("system-")
    return obj["value"] > _HIGHEST and not is_system


class _PriorityClassStrategy(Strategy):
    """Keeps the classes of the system."""

    def mark_deleted(self, obj: JSON, options: Deletion, now: datetime) -> JSON:
        """Return a deleted class; raises Refusal for those of the system."""
        if (name := obj["metadata"]["name"]) in _SYSTEM:
            why = "this is a system priority class and cannot be deleted"
            raise statuses.forbidden(
                PRIORITY_CLASSES.group, PRIORITY_CLASSES.plural, name, why
            )
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


_LIMITS: Final = ("minAvailable", "maxUnavailable")


def _one_limit(spec: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    if all(name in spec for name in _LIMITS):
        value = statuses.shown({name: spec[name] for name in _LIMITS})
        why = "minAvailable and maxUnavailable cannot be both set"
        yield statuses.invalid(path[:-1], value, why)


def _limit(value: Any, field: str) -> Iterator[statuses.Cause | str]:
    yield from validate_int_or_percent(value, field)
    if percent(value) > 100:
        yield "must not be greater than 100%"


BUDGETS: Final = kind_of(
    "policy/v1/poddisruptionbudgets",
    counts_generations=True,
    rules="""
        spec:
          hook one_limit
          minAvailable, maxUnavailable: limit pointer
          unhealthyPodEvictionPolicy: enum IfHealthyBudget AlwaysAllow
          selector: selector
        """,
    status_rules="""
        status:
          disruptionsAllowed, currentHealthy: not-negative
          desiredHealthy, expectedPods: not-negative
        """,
    printer="""
        Name
        Min Available: {.spec.minAvailable} or N/A
        Max Unavailable: {.spec.maxUnavailable} or N/A
        Allowed Disruptions integer: .status.disruptionsAllowed
        Age
        """,
)

# Disruptions

_ALLOWED: Final = "DisruptionAllowed"
_MOST_TAKEN: Final = 2000
"""The most evictions in a status whose deletions the controller has not seen yet."""
_TOO_MANY: Final = (
    "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
)


def find_budgets(storage: Storage, pod: JSON) -> list[JSON]:
    """Return the budgets that select a pod."""
    metadata = pod["metadata"]
    return [
        stored.obj
        for stored in storage.collection(BUDGETS.resource)
        if stored.obj["metadata"]["namespace"] == metadata["namespace"]
        and selects(stored.obj["spec"].get("selector"), metadata.get("labels", {}))
    ]


def take_disruption(
    objects: Objects, budget: JSON, pod: JSON, *, dry_run: bool = False
) -> None:
    """Take one disruption from a budget for a pod; raises Refusal if none is left.

    A pod that is not ready may need none.
    """
    if _needs_none(budget, pod):
        return
    metadata, status = budget["metadata"], budget.get("status", {})
    if status.get("observedGeneration", 0) < metadata["generation"]:
        why = "is still being processed by the server."
        raise _too_many_requests(f"The disruption budget {metadata['name']} {why}", 10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise _forbidden(metadata["name"], "pdb disruptions allowed is negative")
    taken = dict(status.get("disruptedPods") or {})
    if len(taken) > _MOST_TAKEN:
        raise _forbidden(metadata["name"], _TOO_MANY)
    if allowed == 0:
        raise _too_many_requests(_why_none_is_left(metadata["name"], status))
    now = format_time(objects.clock.now())
    taken[pod["metadata"]["name"]] = now
    changed = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": taken}
    if allowed == 1:
        changed["conditions"] = _with_none_left(status, now)
    key = (metadata["namespace"], metadata["name"])
    objects.put(BUDGETS, key, {**budget, "status": changed}, dry_run=dry_run)


def _forbidden(budget: str, why: str) -> statuses.Refusal:
    return statuses.forbidden(BUDGETS.group, "poddisruptionbudget", budget, why)


def _condition(status: JSON) -> JSON | None:
    conditions = status.get("conditions") or ()
    return next((each for each in conditions if each["type"] == _ALLOWED), None)


def _why_none_is_left(name: str, status: JSON) -> str:
    """Return why a budget allows no disruption, by its numbers or its condition."""
    desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    needs = f"needs {desired} healthy pods and has {current} currently"
    condition = _condition(status) or {}
    reason, message = condition.get("reason", ""), condition.get("message", "")
    is_told = condition.get("status") == "False" and message
    forbids = "does not allow evicting pods currently"
    # After a failed sync, the numbers of a budget are out of date.
    if is_told and reason == "SyncFailed":
        return (
            f"The disruption budget {name} {forbids} because it failed sync: {message}"
        )
    if current <= desired:
        return f"The disruption budget {name} {needs}"
    if is_told:
        return f"The disruption budget {name} {forbids} ({reason}): {message}"
    return f"The disruption budget {name} {forbids}"


def _with_none_left(status: JSON, now: str) -> list[JSON]:
    old = _condition(status)
    new = {
        "type": _ALLOWED,
        "status": "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": now,
        "reason": "InsufficientPods",
        "message": "",
    }
    if old is not None and old["status"] == new["status"]:
        new["lastTransitionTime"] = old["lastTransitionTime"]
    conditions = status.get("conditions") or []
    return [new if each is old else each for each in conditions] + [new] * (old is None)


def _needs_none(budget: JSON, pod: JSON) -> bool:
    """Tell whether the eviction of an unready pod takes no disruption."""
    if "Ready" in true_conditions(pod):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    desired: int = status.get("desiredHealthy", 0)
    healthy: int = status.get("currentHealthy", 0)
    return 0 < desired <= healthy


def _too_many_requests(why: str, seconds: int = 0) -> statuses.Refusal:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    details: JSON = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if seconds:
        details["retryAfterSeconds"] = seconds
    return statuses.Refusal(
        429, "TooManyRequests", message, details, retry_after=seconds or None
    )
