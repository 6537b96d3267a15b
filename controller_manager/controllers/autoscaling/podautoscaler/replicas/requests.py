"""What pods request of a resource, in thousandths."""

from collections.abc import Iterable, Iterator
from typing import Final

from controller_manager.api.core.v1 import Container, InitContainer, Pod
from controller_manager.controllers.autoscaling.podautoscaler.replicas.amounts import (
    milli_value,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.samples import (
    ComputationError,
)

_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"


def requested(
    pods: Iterable[Pod], resource: str, container: str = "", *, pod_level: bool
) -> dict[str, int]:
    """Return what each pod requests of a resource, in thousandths, by its name.

    With a container it is the request of the container of that name. Otherwise it is
    the request of the pod as a whole, if it has requests as a whole and `pod_level` is
    set (the gate PodLevelResources), or the sum of its containers and sidecars. Raises
    ComputationError if a request is missing.

    Upstream: calculateRequests in pkg/controller/podautoscaler/replica_calculator.go.
    """
    return {
        pod.metadata.name: _request_as_a_whole(pod, resource)
        if pod_level and not container and _states_requests(pod)
        else _request(pod, resource, container)
        for pod in pods
    }


def _states_requests(pod: Pod) -> bool:
    """Tell whether a pod has requests as a whole (IsPodLevelRequestsSet)."""
    return any(map(_is_pod_level, _pod_requests(pod)))


def _request(pod: Pod, resource: str, container: str) -> int:
    found = [
        each for each in _long_running(pod) if not container or each.name == container
    ]
    if container and not found:
        msg = f"container {container} not found in Pod {pod.metadata.name}"
        raise ComputationError(msg)
    return sum(_request_of_container(pod, each, resource) for each in found)


def _request_of_container(
    pod: Pod, container: Container | InitContainer, resource: str
) -> int:
    amount = _amount(container, resource)
    if amount is None:
        msg = (
            f"missing request for {resource} in container {container.name} "
            f"of Pod {pod.metadata.name}"
        )
        raise ComputationError(msg)
    return amount


def _request_as_a_whole(pod: Pod, resource: str) -> int:
    """Return the request of the pod, or of what its containers need at one time."""
    whole = _pod_requests(pod).get(resource)
    overhead = (pod.spec.overhead or {}).get(resource)
    if whole is not None and _is_pod_level(resource):
        amounts = [milli_value(whole)]
    else:
        amounts = list(_needed_at_one_time(pod, resource))
    if not amounts and overhead is None:
        msg = f"missing pod-level request for {resource} in Pod {pod.metadata.name}"
        raise ComputationError(msg)
    return max(amounts, default=0) + milli_value(overhead or "0")


def _needed_at_one_time(pod: Pod, resource: str) -> Iterator[int]:
    """Yield what runs together: each init container, at last all containers.

    A sidecar runs beside all that start after it.
    """
    sidecars: list[int] = []
    for each in pod.spec.init_containers or ():
        amount = _amount(each, resource)
        if amount is not None:
            yield sum(sidecars) + amount
            if _is_sidecar(each):
                sidecars.append(amount)
    containers = [_amount(each, resource) for each in pod.spec.containers or ()]
    known = [*sidecars, *(amount for amount in containers if amount is not None)]
    if known:
        yield sum(known)


def _pod_requests(pod: Pod) -> dict[str, str]:
    return (pod.spec.resources.requests if pod.spec.resources else None) or {}


def _is_pod_level(resource: str) -> bool:
    """Tell whether a pod as a whole may request the resource."""
    return resource in _POD_LEVEL or resource.startswith(_HUGE_PAGES)


def _long_running(pod: Pod) -> Iterator[Container | InitContainer]:
    yield from pod.spec.containers or ()
    yield from filter(_is_sidecar, pod.spec.init_containers or ())


def _is_sidecar(container: InitContainer) -> bool:
    return container.restart_policy == "Always"


def _amount(container: Container | InitContainer, resource: str) -> int | None:
    text = (container.resources.requests or {}).get(resource)
    return None if text is None else milli_value(text)
