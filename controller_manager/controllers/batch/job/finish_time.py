"""When a pod ended (getFinishedTime, backoff_utils.go)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from controller_manager.api.core.v1 import ContainerStatus, Pod
from controller_manager.api.pods import ready_condition
from controller_manager.api.times import parse_time, seconds_after

_EPOCH: Final = "1970-01-01T00:00:00Z"


def finished_at(pod: Pod) -> datetime:
    """Return when a pod ended, from the best source that there is.

    That is the end of its last container, if all have ended; else when it stopped to
    be ready, which the kubelet writes; else when its deletion began, which podgc
    causes; else its creation.
    """
    return (
        _containers_ended_at(pod)
        or _not_ready_since(pod)
        or _deletion_began_at(pod)
        or parse_time(pod.metadata.creation_timestamp or _EPOCH)
    )


def _containers_ended_at(pod: Pod) -> datetime | None:
    """Return when the last container or sidecar ended.

    As upstream's: if only one of the containers has not ended, the sidecars count
    alone.
    """
    sidecars = {
        container.name
        for container in pod.spec.init_containers or ()
        if container.restart_policy == "Always"
    }
    ends = _ends(pod.status.container_statuses or ())
    of_sidecars = _ends(
        [
            status
            for status in pod.status.init_container_statuses or ()
            if status.name in sidecars
        ]
    )
    if of_sidecars is None:
        return None
    return max((*(ends or ()), *of_sidecars), default=None)


def _ends(statuses: Sequence[ContainerStatus]) -> list[datetime] | None:
    """Return when each container ended; `None` if one has not."""
    ends = []
    for status in statuses:
        ended = status.state.terminated
        if ended is None or not ended.finished_at:
            return None
        ends.append(parse_time(ended.finished_at))
    return ends


def _not_ready_since(pod: Pod) -> datetime | None:
    condition = ready_condition(pod)
    if condition is None or condition.status != "False":
        return None
    since = condition.last_transition_time
    return parse_time(since) if since else None


def _deletion_began_at(pod: Pod) -> datetime | None:
    """Return when the pod was deleted, a grace period before its deletionTimestamp."""
    if not pod.metadata.deletion_timestamp:
        return None
    grace = pod.metadata.deletion_grace_period_seconds or 0
    return seconds_after(parse_time(pod.metadata.deletion_timestamp), -grace)
