"""The summary of an object's status in a few words."""

from collections.abc import Callable, Sequence
from typing import Final

from .cause import Cause, State
from .items import Item, number_at, text_at
from .quotas import used_up

_WITH_ENDPOINTS: Final = frozenset(("FailsAgain", "NoLoadBalancer"))
"""The codes of causes of services that have ready endpoints."""

Summary = Callable[[Item], str]


def _available(item: Item) -> str:
    wanted = number_at(item.spec, "replicas", 1)
    return (
        f"{number_at(item.status, 'availableReplicas')} of {wanted} pods are available"
    )


def _rolled_out(item: Item) -> str:
    wanted = number_at(item.spec, "replicas", 1)
    updated = number_at(item.status, "updatedReplicas")
    new = "" if updated == wanted else f", {updated} have the current template"
    return _available(item) + new


def _on_nodes(item: Item) -> str:
    wanted = number_at(item.status, "desiredNumberScheduled")
    available = number_at(item.status, "numberAvailable")
    return f"{available} of {wanted} nodes have an available pod"


def _succeeded(item: Item) -> str:
    wanted = number_at(item.spec, "completions", 1)
    return f"{number_at(item.status, 'succeeded')} of {wanted} pods have succeeded"


def _phase(item: Item) -> str:
    return f"its phase is {text_at(item.status, 'phase') or 'unknown'}"


def _allowed(item: Item) -> str:
    allowed = number_at(item.status, "disruptionsAllowed")
    return f"{allowed or 'no'} pods may be evicted"


def _scheduled(item: Item) -> str:
    last = text_at(item.status, "lastScheduleTime")
    return f"its last run was {last}" if last else "it has had no run yet"


def _scaled(item: Item) -> str:
    target = item.spec.get("scaleTargetRef") or {}
    return f"it scales {target.get('kind')} {target.get('name')}"


def _filled(item: Item) -> str:
    full = ", ".join(used_up(item))
    return f"it is full: {full}" if full else "it has room"


def _too_small(item: Item, causes: Sequence[Cause]) -> str:
    """Return the summary of a quota that is not full, and not healthy either."""
    if used_up(item):
        return _filled(item)
    refuses = any(each.code == "QuotaFull" for each in causes)
    return "it has too little room" if refuses else "it is not counted"


_SUMMARIES: Final[dict[str, Summary]] = {
    "CronJob": _scheduled,
    "DaemonSet": _on_nodes,
    "Deployment": _rolled_out,
    "HorizontalPodAutoscaler": _scaled,
    "Job": _succeeded,
    "PersistentVolumeClaim": _phase,
    "Pod": _phase,
    "PodDisruptionBudget": _allowed,
    "ReplicaSet": _available,
    "ReplicationController": _available,
    "ResourceQuota": _filled,
    "StatefulSet": _available,
}


def summary_of(item: Item, state: State, causes: Sequence[Cause]) -> str:
    """Return a summary of an object's status, for the first line of its answer."""
    if item.deleted_at:
        return "it is being deleted"
    if item.resource.kind == "ResourceQuota" and state is not State.HEALTHY:
        return _too_small(item, causes)
    summary = _SUMMARIES.get(item.resource.kind)
    if summary is not None:
        return summary(item)
    serves = any(each.code in _WITH_ENDPOINTS for each in causes[:1])
    if item.resource.kind == "Service" and state is not State.HEALTHY and not serves:
        return "it has no ready endpoints"
    return "nothing is wrong" if state is State.HEALTHY else "something is wrong"
