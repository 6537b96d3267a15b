"""What the metrics and the cache say about the pods of one target, at one time."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.api.pods import ready_condition
from controller_manager.api.times import parse_time


class ComputationError(Exception):
    """The metrics allow no recommendation; the message is upstream's."""


class PodMetric(Struct, frozen=True):
    """What one pod uses, in thousandths, measured over the window before a time."""

    value: int
    timestamp: datetime
    window: timedelta


class TargetPod(Struct, frozen=True):
    """One pod that the selector of the target selects.

    `ready` is the status of the Ready condition, `None` if there is none, and
    `ready_since` is when that status was reached.
    """

    name: str
    phase: str
    deleting: bool = False
    started: datetime | None = None
    ready: str | None = None
    ready_since: datetime | None = None


class PodSample(Struct, frozen=True):
    """The pods of a target and their metrics, by the names of the pods.

    `resource` is the resource that is measured, empty for a custom metric. A metric
    may belong to a pod that is not among the pods, and a pod may have no metric.
    """

    pods: tuple[TargetPod, ...]
    metrics: Mapping[str, PodMetric]
    now: datetime
    resource: str = ""


def target_pods(pods: Iterable[Pod]) -> tuple[TargetPod, ...]:
    """Return the pods as the computation sees them."""
    return tuple(_target_pod(pod) for pod in pods)


def _target_pod(pod: Pod) -> TargetPod:
    condition = ready_condition(pod)
    return TargetPod(
        name=pod.metadata.name,
        phase=pod.status.phase,
        deleting=bool(pod.metadata.deletion_timestamp),
        started=_time(pod.status.start_time),
        ready=condition.status if condition else None,
        ready_since=_time(condition.last_transition_time) if condition else None,
    )


def _time(text: str | None) -> datetime | None:
    return parse_time(text) if text else None
