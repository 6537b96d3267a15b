"""What a pod requests and may use (k8s.io/component-helpers/resource/helpers.go)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from controller_manager.api.core.compute import (
    CPU,
    HUGE_PAGES_PREFIX,
    MEMORY,
    ResourceRequirements,
)
from controller_manager.api.core.v1 import (
    Container,
    ContainerStatus,
    InitContainer,
    Pod,
)
from controller_manager.api.quantity import Quantity
from controller_manager.control.quota.amounts import (
    NOTHING,
    Amounts,
    added,
    amounts,
    larger,
)

_RESIZE_PENDING: Final = "PodResizePending"
_INFEASIBLE: Final = "Infeasible"
_ALWAYS: Final = "Always"
_NO_REQUIREMENTS: Final = ResourceRequirements()

_AnyContainer = Container | InitContainer


def has_pod_level_resources(pod: Pod) -> bool:
    """Tell whether a pod states cpu, memory or huge pages for itself as a whole."""
    resources = pod.spec.resources
    return resources is not None and (
        _is_pod_level(resources.requests) or _is_pod_level(resources.limits)
    )


def _is_pod_level(stated: Mapping[str, str] | None) -> bool:
    return any(_fits_a_pod(name) for name in stated or ())


def _fits_a_pod(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES_PREFIX)


def pod_requests(pod: Pod) -> dict[str, Quantity]:
    """Return what a pod requests, with its overhead (PodRequests).

    Init containers run one after the other before the containers, so the largest of
    them counts; a sidecar, which goes on, is added to everything after it. What the
    pod states for itself as a whole replaces the sum of its containers. During a
    resize the largest of what is wanted, allocated and in use counts.

    Raises QuantityError for a text that is no quantity.
    """
    total = _containers_together(pod, _requests_of)
    stated = pod.spec.resources
    if stated is not None and _is_pod_level(stated.requests):
        total |= _pod_level(pod, stated.requests, _status_requests(pod))
    return added(total, amounts(pod.spec.overhead))


def pod_limits(pod: Pod) -> dict[str, Quantity]:
    """Return what a pod may use (PodLimits).

    Overhead is added to the limits that there are. Raises QuantityError for a text
    that is no quantity.
    """
    total = _containers_together(pod, _limits_of)
    if has_pod_level_resources(pod):
        in_use = pod.status.resources
        stated = (pod.spec.resources or _NO_REQUIREMENTS).limits
        total |= _pod_level(pod, stated, [in_use.limits] if in_use is not None else [])
    overhead = amounts(pod.spec.overhead)
    return {
        name: limit + overhead[name] if name in overhead and limit.nanos else limit
        for name, limit in total.items()
    }


def _pod_level(
    pod: Pod,
    stated: Mapping[str, str] | None,
    in_status: Iterable[Mapping[str, str] | None],
) -> dict[str, Quantity]:
    """Return what counts of the resources that a pod states for itself."""
    wanted = amounts(stated)
    actual = [amounts(each) for each in in_status]
    if actual:
        effective = larger(actual if _is_infeasible(pod) else [wanted, *actual])
    else:
        effective = wanted
    return {name: each for name, each in effective.items() if _fits_a_pod(name)}


def _status_requests(pod: Pod) -> list[Mapping[str, str] | None]:
    status = pod.status
    if status.resources is None:
        return []
    return [status.resources.requests, status.allocated_resources]


def _is_infeasible(pod: Pod) -> bool:
    """Tell whether the node has refused to resize the pod."""
    for condition in pod.status.conditions or ():
        if condition.type == _RESIZE_PENDING:
            return condition.reason == _INFEASIBLE
    return False


class _Resizing:
    """The statuses of a pod's containers, which may differ from its spec."""

    def __init__(self, pod: Pod) -> None:
        status = pod.status
        statuses = (
            *(status.container_statuses or ()),
            *(status.init_container_statuses or ()),
        )
        self.statuses: dict[str, ContainerStatus] = {
            each.name: each for each in statuses if each.resources is not None
        }
        self.is_infeasible = bool(self.statuses) and _is_infeasible(pod)


def _requests_of(container: _AnyContainer, resizing: _Resizing | None) -> Amounts:
    wanted = amounts(container.resources.requests)
    status = resizing.statuses.get(container.name) if resizing is not None else None
    if status is None or resizing is None:
        return wanted
    in_use = (status.resources or _NO_REQUIREMENTS).requests
    actual = [amounts(in_use), amounts(status.allocated_resources)]
    return larger(actual if resizing.is_infeasible else [wanted, *actual])


def _limits_of(container: _AnyContainer, resizing: _Resizing | None) -> Amounts:
    wanted = amounts(container.resources.limits)
    status = resizing.statuses.get(container.name) if resizing is not None else None
    if status is None or resizing is None:
        return wanted
    actual = amounts((status.resources or _NO_REQUIREMENTS).limits)
    return actual if resizing.is_infeasible else larger([wanted, actual])


def _containers_together(
    pod: Pod, resources_of: Callable[[_AnyContainer, _Resizing | None], Amounts]
) -> dict[str, Quantity]:
    """Return what all containers of a pod need at most at one time."""
    resizing = _Resizing(pod)
    total: dict[str, Quantity] = {}
    for container in pod.spec.containers or ():
        total = added(total, resources_of(container, resizing))
    sidecars: Amounts = NOTHING
    starting: Amounts = NOTHING
    for init in pod.spec.init_containers or ():
        if init.restart_policy == _ALWAYS:
            needed = resources_of(init, resizing)
            total = added(total, needed)
            sidecars = added(sidecars, needed)
            starting = larger([starting, sidecars])
        else:
            # An init container that ends is not resized.
            needed = added(resources_of(init, None), sidecars)
            starting = larger([starting, needed])
    return larger([total, starting])
