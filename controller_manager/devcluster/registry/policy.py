"""Budgets for disruptions of pods, and the disruptions that they allow.

Upstream: pkg/apis/policy/validation, registry/core/pod/storage/eviction.go.
"""

from collections.abc import Iterator
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.storage import Storage
from controller_manager.devcluster.validation.values import (
    percent,
    selects,
    validate_int_or_percent,
)

from .kinds import kind_of, true_conditions

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
