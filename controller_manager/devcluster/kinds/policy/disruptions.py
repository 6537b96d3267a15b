"""The disruptions that budgets allow (registry/core/pod/storage/eviction.go)."""

from typing import Any

from controller_manager.api.times import format_time
from controller_manager.devcluster.kinds.policy.poddisruptionbudget import (
    KIND as BUDGETS,
)
from controller_manager.devcluster.kinds.workload_validation import selects
from controller_manager.devcluster.server.objects import Objects
from controller_manager.devcluster.server.statuses import Refusal, forbidden
from controller_manager.devcluster.server.storage import Storage

JSON = dict[str, Any]


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
        why = "pdb disruptions allowed is negative"
        raise forbidden(BUDGETS.group, BUDGETS.plural, metadata["name"], why)
    if allowed == 0:
        raise _too_many_requests(
            f"The disruption budget {metadata['name']} needs "
            f"{status.get('desiredHealthy', 0)} healthy pods and has "
            f"{status.get('currentHealthy', 0)} currently"
        )
    now = format_time(objects.clock.now())
    taken = {**status.get("disruptedPods", {}), pod["metadata"]["name"]: now}
    changed = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": taken}
    key = (metadata["namespace"], metadata["name"])
    objects.put(BUDGETS, key, {**budget, "status": changed}, dry_run=dry_run)


def _needs_none(budget: JSON, pod: JSON) -> bool:
    """Tell whether a pod that is not ready may go without a disruption."""
    ready = any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in pod.get("status", {}).get("conditions", [])
    )
    if ready:
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    desired: int = status.get("desiredHealthy", 0)
    healthy: int = status.get("currentHealthy", 0)
    return 0 < desired <= healthy


def _too_many_requests(why: str, seconds: int = 0) -> Refusal:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    details: JSON = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if seconds:
        details["retryAfterSeconds"] = seconds
    return Refusal(
        429, "TooManyRequests", message, details, retry_after=seconds or None
    )
