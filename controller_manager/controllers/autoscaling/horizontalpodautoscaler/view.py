"""From the pods of the cache to what the computation needs of them."""

from collections.abc import Iterable
from datetime import datetime

from controller_manager.api.core.v1 import Pod
from controller_manager.api.pods import ready_condition
from controller_manager.api.times import parse_time
from controller_manager.controllers.autoscaling.horizontalpodautoscaler.samples import (
    TargetPod,
)


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
