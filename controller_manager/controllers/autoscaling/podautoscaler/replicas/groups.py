"""Which pods count, which are too young to count, and which have no metric."""

from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from controller_manager.controllers.autoscaling.podautoscaler.replicas.judging import (
    Readiness,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.samples import (
    PodMetric,
    PodSample,
    TargetPod,
)

_CPU: Final = "cpu"
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class PodGroups(Struct, frozen=True):
    """The names of a sample's pods, by how they count; each is in one group.

    `unready` pods are pending or have not started up, `missing` ones have no metric,
    and `ignored` ones have failed or are being deleted. The others are `measured`.
    """

    measured: frozenset[str]
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


def grouped(sample: PodSample, readiness: Readiness) -> PodGroups:
    """Return the pods of a sample by how they count.

    Upstream: groupPods in pkg/controller/podautoscaler/replica_calculator.go. Only
    the use of CPU is distorted by the start of a pod, so only for that the readiness
    counts. A pod that has succeeded counts like one that runs.
    """
    names: dict[str, list[str]] = {each: [] for each in PodGroups.__struct_fields__}
    for pod in sample.pods:
        names[_group(pod, sample, readiness)].append(pod.name)
    return PodGroups(**{group: frozenset(each) for group, each in names.items()})


def _group(pod: TargetPod, sample: PodSample, readiness: Readiness) -> str:
    if pod.deleting or pod.phase == "Failed":
        return "ignored"
    if pod.phase == "Pending":
        return "unready"
    metric = sample.metrics.get(pod.name)
    if metric is None:
        return "missing"
    if sample.resource == _CPU and _starts_up(pod, metric, sample.now, readiness):
        return "unready"
    return "measured"


def _starts_up(
    pod: TargetPod, metric: PodMetric, now: datetime, readiness: Readiness
) -> bool:
    """Tell whether what the pod uses may be distorted by its start."""
    if pod.ready is None or pod.started is None:
        return True
    ready_since = pod.ready_since or _LONG_AGO
    if pod.started + readiness.cpu_initialization_period > now:
        # A metric counts if all of its window lies after the pod became ready.
        return pod.ready == "False" or metric.timestamp < ready_since + metric.window
    # A pod that became unready so early has never been ready.
    early = pod.started + readiness.initial_readiness_delay
    return pod.ready == "False" and early > ready_since
