"""The usage of pods (pkg/quota/v1/evaluator/core/pods.go).

Requests and limits of a pod are those of k8s.io/component-helpers/resource/helpers.go,
with the options of the quota evaluator. The resources in the status of each container
count (UseStatusResources). Those in the status of the pod as a whole do not count: a
kubelet adds the overhead to them, so quotas would charge for it twice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from operator import attrgetter
from typing import Any, Final

from controller_manager.api.core import v1
from controller_manager.api.core.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGE_PAGES_PREFIX,
    MEMORY,
    ResourceRequirements,
)
from controller_manager.api.meta import find_condition
from controller_manager.api.quantity import Quantity
from controller_manager.api.scalars import parse_time, seconds_after

from . import resources
from .scopes import has_deadline

_ONE: Final = Quantity.of(1)
_COUNT: Final = "count/pods"
_ENDED: Final = ("Failed", "Succeeded")
_COMPUTE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)

_OBJECT_ONLY: Final[resources.Amounts] = {_COUNT: _ONE}
"""The usage of a pod that has ended."""

_REQUIRED: Final = frozenset(
    prefix + name
    for prefix in ("", resources.REQUESTS, resources.LIMITS)
    for name in (CPU, MEMORY)
)
"""The resources that each container must specify if a quota limits them."""

_TRACKED: Final = {_COUNT, resources.PODS}.union(
    prefix + name
    for prefix in ("", resources.REQUESTS, resources.LIMITS)
    for name in _COMPUTE
)


def tracks(name: str) -> bool:
    """Tell whether pods are charged for a resource (MatchingResources)."""
    return (
        name in _TRACKED
        or resources.limits_huge_pages(name)
        or resources.limits_extended(name)
    )


def is_charged(pod: v1.Pod, now: datetime) -> bool:
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


def pod_usage(pod: v1.Pod, now: datetime, *, pod_level: bool) -> resources.Amounts:
    """Return the usage of a pod at a time (PodUsageFunc).

    `pod_level` is the gate PodLevelResources: the pod's own `spec.resources` count.
    Raises QuantityError for an invalid quantity.
    """
    if not is_charged(pod, now):
        return _OBJECT_ONLY
    requests = pod_requests(pod, pod_level=pod_level)
    limits = pod_limits(pod, pod_level=pod_level)
    return {_COUNT: _ONE, **_compute(requests, limits)}


def _compute(
    requests: resources.Amounts, limits: resources.Amounts
) -> dict[str, Quantity]:
    """Name requests and limits as quotas do (podComputeUsageHelper)."""
    usage = {resources.PODS: _ONE}
    for name, request in requests.items():
        if name in _COMPUTE or name.startswith(HUGE_PAGES_PREFIX):
            usage[name] = usage[resources.REQUESTS + name] = request
        elif resources.is_extended(name):
            usage[resources.REQUESTS + name] = request
    for name in _COMPUTE:
        if name in limits:
            usage[resources.LIMITS + name] = limits[name]
    return usage


def footprint(pod: v1.Pod, now: datetime) -> tuple[Any, ...]:
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


def missing_statements(pod: v1.Pod, limited: Iterable[str], *, pod_level: bool) -> str:
    """Return the containers that fail to specify limited resources (Constraints).

    The result is empty, or in the words of the API server. With `pod_level` a pod that
    has resources of its own need not specify them for its containers.
    """
    required = _REQUIRED.intersection(limited)
    if not required or (pod_level and has_pod_level_resources(pod)):
        return ""
    missing: dict[str, set[str]] = {}
    containers: Iterable[_AnyContainer] = chain(
        pod.spec.containers or (), pod.spec.init_containers or ()
    )
    for container in containers:
        asked = container.resources
        stated = _compute(
            resources.amounts(asked.requests), resources.amounts(asked.limits)
        )
        for name in required.difference(stated):
            missing.setdefault(name, set()).add(container.name)
    each = [
        f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing)
    ]
    return f"must specify {'; '.join(each)}" if each else ""


_Texts = Mapping[str, str] | None
_AnyContainer = v1.Container | v1.InitContainer
_Of = Callable[[_AnyContainer], _Texts]
"""Returns the resources of a container that are added up."""

_wanted_requests: Final[_Of] = attrgetter("resources.requests")
_wanted_limits: Final[_Of] = attrgetter("resources.limits")


def has_pod_level_resources(pod: v1.Pod) -> bool:
    """Tell whether a pod states cpu, memory or huge pages for itself as a whole."""
    asked = pod.spec.resources
    names = (*(asked.requests or ()), *(asked.limits or ())) if asked else ()
    return any(map(_fits_a_pod, names))


def _fits_a_pod(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES_PREFIX)


def pod_requests(pod: v1.Pod, *, pod_level: bool = True) -> dict[str, Quantity]:
    """Return the requests of a pod, with its overhead (PodRequests).

    Init containers run one after the other before the containers, so the largest of
    them counts; a sidecar, which keeps running, is added to all later containers.
    During a resize, the wanted, the allocated and the used amounts of all containers
    are added up, and the largest of the three sums counts. With `pod_level` the amounts
    that the spec states for the pod as a whole replace the sums.

    Raises QuantityError for an invalid quantity.
    """
    sums = (_together(pod, each) for each in _Containers(pod).requests())
    total = resources.larger(sums)
    if pod_level and pod.spec.resources is not None:
        total |= _pod_level(pod.spec.resources.requests)
    return resources.added(total, resources.amounts(pod.spec.overhead))


def pod_limits(pod: v1.Pod, *, pod_level: bool = True) -> dict[str, Quantity]:
    """Return the limits of a pod (PodLimits).

    Overhead is added to existing limits only. `pod_level` is that of
    `pod_requests`. Raises QuantityError for an invalid quantity.
    """
    sums = (_together(pod, each) for each in _Containers(pod).limits())
    total = resources.larger(sums)
    if pod_level and pod.spec.resources is not None:
        total |= _pod_level(pod.spec.resources.limits)
    overhead = resources.amounts(pod.spec.overhead)
    return {
        name: limit + overhead[name] if name in overhead and limit.nanos else limit
        for name, limit in total.items()
    }


def _pod_level(stated: _Texts) -> dict[str, Quantity]:
    """Return those of a pod's own resources that may stand at the level of pods."""
    amounts = resources.amounts(stated)
    return {name: each for name, each in amounts.items() if _fits_a_pod(name)}


def is_resize_infeasible(pod: v1.Pod) -> bool:
    """Tell whether the node has refused to resize the pod (IsPodResizeInfeasible)."""
    condition = find_condition(pod.status.conditions, v1.RESIZE_PENDING)
    return condition is not None and condition.reason == "Infeasible"


def resized_statuses(pod: v1.Pod) -> Iterator[v1.ContainerStatus]:
    """Yield the container statuses with allocated or used resources.

    Those of init containers come last.
    """
    status = pod.status
    for statuses in (status.container_statuses, status.init_container_statuses):
        for each in statuses or ():
            if each.resources is not None or each.allocated_resources:
                yield each


class _Containers:
    """The resources of a pod's containers by spec and by status.

    After a refused resize only the allocated and the used amounts count; a container
    whose status has neither counts for nothing.
    """

    def __init__(self, pod: v1.Pod) -> None:
        self._statuses: dict[str, v1.ContainerStatus] = {}
        for each in resized_statuses(pod):
            self._statuses.setdefault(each.name, each)
        self._is_infeasible = is_resize_infeasible(pod)

    def requests(self) -> list[_Of]:
        """Return the sum of the amounts; the largest sum of each resource counts."""
        if self._is_infeasible:
            return [self._used_requests, self._allocated]
        if not self._statuses:
            return [_wanted_requests]
        return [_wanted_requests, self._used_requests, self._allocated]

    def limits(self) -> list[_Of]:
        """Return the same for limits, which are not allocated."""
        if self._is_infeasible:
            return [self._used_limits]
        used = [self._used_limits] if self._statuses else []
        return [_wanted_limits, *used]

    def _allocated(self, container: _AnyContainer) -> _Texts:
        status = self._statuses.get(container.name)
        if status is not None and status.allocated_resources:
            return status.allocated_resources
        return None if self._is_infeasible else _wanted_requests(container)

    def _used_requests(self, container: _AnyContainer) -> _Texts:
        in_use = self._in_use(container)
        if in_use is not None and in_use.requests:
            return in_use.requests
        return self._allocated(container)

    def _used_limits(self, container: _AnyContainer) -> _Texts:
        in_use = self._in_use(container)
        if in_use is not None and in_use.limits:
            return in_use.limits
        return None if self._is_infeasible else _wanted_limits(container)

    def _in_use(self, container: _AnyContainer) -> ResourceRequirements | None:
        status = self._statuses.get(container.name)
        return None if status is None else status.resources


def _together(pod: v1.Pod, resources_of: _Of) -> dict[str, Quantity]:
    """Return the most that all containers of a pod need at one time."""
    total: dict[str, Quantity] = {}
    for container in pod.spec.containers or ():
        total = resources.added(total, resources.amounts(resources_of(container)))
    sidecars: dict[str, Quantity] = {}
    starting: dict[str, Quantity] = {}
    for init in pod.spec.init_containers or ():
        needed = resources.amounts(resources_of(init))
        if init.restart_policy == "Always":
            total = resources.added(total, needed)
            sidecars = resources.added(sidecars, needed)
            starting = resources.larger([starting, sidecars])
        else:
            starting = resources.larger([starting, resources.added(needed, sidecars)])
    return resources.larger([total, starting])
