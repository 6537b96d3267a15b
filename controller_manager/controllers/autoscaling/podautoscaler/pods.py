"""The pods of a target: their states, metrics and requests, and when these count.

All amounts are in thousandths.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from controller_manager.api.autoscaling.v2 import (
    HorizontalPodAutoscalerBehavior,
    HPAScalingRules,
)
from controller_manager.api.core.v1 import Container, InitContainer, Pod
from controller_manager.api.meta import is_deleting
from controller_manager.api.pods import ready_condition
from controller_manager.api.quantity import parse_quantity
from controller_manager.api.scalars import parse_time


class Tolerances(Struct, frozen=True):
    """Distances from the target at which nothing changes; 0.1 is 10 %."""

    up: float
    down: float

    def allow(self, usage_ratio: float) -> bool:
        """Tell whether the ratio of usage to target asks for no change."""
        return 1.0 - self.down <= usage_ratio <= 1.0 + self.up


class Readiness(Struct, frozen=True):
    """The times after the start of a pod in which its CPU usage may be distorted.

    Upstream: --horizontal-pod-autoscaler-cpu-initialization-period and
    --horizontal-pod-autoscaler-initial-readiness-delay.
    """

    cpu_initialization_period: timedelta
    initial_readiness_delay: timedelta


class Thresholds(Struct, frozen=True):
    """The tolerances and readiness times for the metrics of one autoscaler."""

    tolerances: Tolerances
    readiness: Readiness


def tolerances_of(
    behavior: HorizontalPodAutoscalerBehavior | None, default: float
) -> Tolerances:
    """Return the tolerances of a behavior, which may name some (tolerancesForHpa)."""

    def of(rules: HPAScalingRules | None) -> float:
        if rules is None or rules.tolerance is None:
            return default
        return parse_quantity(rules.tolerance).nanos / 1_000_000_000

    if behavior is None:
        return Tolerances(default, default)
    return Tolerances(up=of(behavior.scale_up), down=of(behavior.scale_down))


class ComputationError(Exception):
    """The metrics allow no recommendation; the message is upstream's."""


def milli_value(quantity: str) -> int:
    """Return a quantity in thousandths."""
    return parse_quantity(quantity).milli_value


class PodMetric(Struct, frozen=True):
    """The usage of one pod in thousandths, measured over the window before a time."""

    value: int
    timestamp: datetime
    window: timedelta


class PodSample(Struct, frozen=True):
    """The pods of a target and their metrics, by the names of the pods.

    `resource` is the resource that is measured, empty for a custom metric. A metric
    may belong to a pod that is not among the pods, and a pod may have no metric.
    """

    pods: Sequence[Pod]
    metrics: Mapping[str, PodMetric]
    now: datetime
    resource: str = ""


_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class PodGroups(Struct, frozen=True):
    """The names of a sample's pods in four groups; each pod is in one of them.

    `unready` pods are pending or have not started up, `missing` ones have no metric,
    and `ignored` ones have failed or are being deleted. The others are `measured`.
    """

    measured: frozenset[str]
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


def grouped(sample: PodSample, readiness: Readiness) -> PodGroups:
    """Return the pods of a sample in groups (groupPods, replica_calculator.go)."""
    # The start of a pod distorts only its CPU usage, so readiness counts only for CPU.
    # A pod that has succeeded counts like one that runs.
    names: dict[str, list[str]] = {each: [] for each in PodGroups.__struct_fields__}
    for pod in sample.pods:
        names[_group(pod, sample, readiness)].append(pod.metadata.name)
    return PodGroups(**{group: frozenset(each) for group, each in names.items()})


def _group(pod: Pod, sample: PodSample, readiness: Readiness) -> str:
    if is_deleting(pod) or pod.status.phase == "Failed":
        return "ignored"
    if pod.status.phase == "Pending":
        return "unready"
    metric = sample.metrics.get(pod.metadata.name)
    if metric is None:
        return "missing"
    if sample.resource == "cpu" and _starts_up(pod, metric, sample.now, readiness):
        return "unready"
    return "measured"


def _starts_up(
    pod: Pod, metric: PodMetric, now: datetime, readiness: Readiness
) -> bool:
    condition = ready_condition(pod)
    if condition is None or not pod.status.start_time:
        return True
    started, since = parse_time(pod.status.start_time), condition.last_transition_time
    ready_since = parse_time(since) if since else _LONG_AGO
    if started + readiness.cpu_initialization_period > now:
        # A metric counts if all of its window lies after the pod became ready.
        began = ready_since + metric.window
        return condition.status == "False" or metric.timestamp < began
    # A pod that became unready so early has never been ready.
    early = started + readiness.initial_readiness_delay
    return condition.status == "False" and early > ready_since


_POD_LEVEL: Final = ("cpu", "memory")


def requested(
    pods: Iterable[Pod], resource: str, container: str = "", *, pod_level: bool
) -> dict[str, int]:
    """Return the requests of pods by name, in thousandths (calculateRequests).

    With a `container` it is that container's. Otherwise it is the request of the pod as
    a whole, if the pod has one and `pod_level` is set (the gate PodLevelResources), or
    the sum of its containers and sidecars. Raises ComputationError if one is missing.
    """
    requests: dict[str, int] = {}
    for pod in pods:
        # Upstream: IsPodLevelRequestsSet.
        as_a_whole = pod_level and any(map(_is_pod_level, _pod_requests(pod)))
        if as_a_whole and not container:
            requests[pod.metadata.name] = _request_as_a_whole(pod, resource)
        else:
            requests[pod.metadata.name] = _request(pod, resource, container)
    return requests


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
    """Return the pod's own request, or the most that its containers need at once."""
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
    """Yield the needs of each init container with its sidecars, and of all others."""
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
    return resource in _POD_LEVEL or resource.startswith("hugepages-")


def _long_running(pod: Pod) -> Iterator[Container | InitContainer]:
    yield from pod.spec.containers or ()
    yield from filter(_is_sidecar, pod.spec.init_containers or ())


def _is_sidecar(container: InitContainer) -> bool:
    return container.restart_policy == "Always"


def _amount(container: Container | InitContainer, resource: str) -> int | None:
    text = (container.resources.requests or {}).get(resource)
    return None if text is None else milli_value(text)
