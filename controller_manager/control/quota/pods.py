"""The usage of pods (pkg/quota/v1/evaluator/core/pods.go)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from controller_manager.api.core.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGE_PAGES_PREFIX,
    MEMORY,
)
from controller_manager.api.core.v1 import Container, InitContainer, Pod
from controller_manager.api.quantity import Quantity
from controller_manager.api.times import parse_time, seconds_after

from .amounts import Amounts, amounts
from .names import (
    LIMITS,
    PODS,
    REQUESTS,
    count_name,
    is_extended,
    limits_extended,
    limits_huge_pages,
)
from .pod_resources import (
    has_pod_level_resources,
    is_resize_infeasible,
    pod_limits,
    pod_requests,
    resized_statuses,
)
from .scopes import has_deadline

_ONE: Final = Quantity.of(1)
_COUNT: Final = count_name("pods", "")
_ENDED: Final = ("Failed", "Succeeded")
_COMPUTE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)

_OBJECT_ONLY: Final[Amounts] = {_COUNT: _ONE}
"""The usage of a pod that has ended."""

_REQUIRED: Final = frozenset(
    prefix + name for prefix in ("", REQUESTS, LIMITS) for name in (CPU, MEMORY)
)
"""The resources that each container must specify if a quota limits them."""

_TRACKED: Final = {_COUNT, PODS}.union(
    prefix + name for prefix in ("", REQUESTS, LIMITS) for name in _COMPUTE
)


def tracks(name: str) -> bool:
    """Tell whether pods are charged for a resource (MatchingResources)."""
    return name in _TRACKED or limits_huge_pages(name) or limits_extended(name)


def is_charged(pod: Pod, now: datetime) -> bool:
    """Tell whether the resources of a pod count, and not only the object (QuotaV1Pod).

    They do not count once the pod has ended, or once its deletion is overdue: its node
    may be lost, and its owner must be able to replace it.
    """
    if pod.status.phase in _ENDED:
        return False
    deleted = pod.metadata.deletion_timestamp
    grace = pod.metadata.deletion_grace_period_seconds
    if deleted is None or grace is None:
        return True
    return now <= seconds_after(parse_time(deleted), grace)


def pod_usage(pod: Pod, now: datetime, *, pod_level: bool) -> Amounts:
    """Return the usage of a pod at a time (PodUsageFunc).

    `pod_level` is the gate PodLevelResources: the pod's own `spec.resources` count.
    Raises QuantityError for an invalid quantity.
    """
    if not is_charged(pod, now):
        return _OBJECT_ONLY
    requests = pod_requests(pod, pod_level=pod_level)
    limits = pod_limits(pod, pod_level=pod_level)
    return {_COUNT: _ONE, **_compute(requests, limits)}


def _compute(requests: Amounts, limits: Amounts) -> dict[str, Quantity]:
    """Name requests and limits as quotas do (podComputeUsageHelper)."""
    usage = {PODS: _ONE}
    for name, request in requests.items():
        if name in _COMPUTE or name.startswith(HUGE_PAGES_PREFIX):
            usage[name] = usage[REQUESTS + name] = request
        elif is_extended(name):
            usage[REQUESTS + name] = request
    for name in _COMPUTE:
        if name in limits:
            usage[LIMITS + name] = limits[name]
    return usage


def footprint(pod: Pod, now: datetime) -> tuple[Any, ...]:
    """Return all data on which the usage of a pod depends, to compare versions."""
    spec = pod.spec
    return (
        is_charged(pod, now),
        has_deadline(pod),
        [(each.name, each.resources) for each in spec.containers or ()],
        [
            (each.name, each.resources, each.restart_policy)
            for each in spec.init_containers or ()
        ],
        *(spec.overhead, spec.resources),
        is_resize_infeasible(pod),
        [
            (each.name, each.resources, each.allocated_resources)
            for each in resized_statuses(pod)
        ],
    )


def missing_statements(pod: Pod, limited: Iterable[str], *, pod_level: bool) -> str:
    """Return the containers that fail to specify limited resources (Constraints).

    The result is empty, or in the words of the API server. With `pod_level` a pod that
    has resources of its own need not specify them for its containers.
    """
    required = _REQUIRED.intersection(limited)
    if not required or (pod_level and has_pod_level_resources(pod)):
        return ""
    missing: dict[str, set[str]] = {}
    containers: tuple[Container | InitContainer, ...] = (
        *(pod.spec.containers or ()),
        *(pod.spec.init_containers or ()),
    )
    for container in containers:
        resources = container.resources
        stated = _compute(amounts(resources.requests), amounts(resources.limits))
        for name in required.difference(stated):
            missing.setdefault(name, set()).add(container.name)
    each = (
        f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing)
    )
    return f"must specify {'; '.join(each)}" if missing else ""
