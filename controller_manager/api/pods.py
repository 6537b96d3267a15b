"""The state of a pod: active, terminating, ready, available (pkg/api/v1/pod)."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from .core.v1 import Pod, PodCondition
from .meta import find_condition, true_condition
from .scalars import parse_time

TERMINAL_PHASES = frozenset(("Succeeded", "Failed"))


def is_terminal(pod: Pod) -> bool:
    """Tell whether the pod has ended: its phase is Succeeded or Failed."""
    return pod.status.phase in TERMINAL_PHASES


def is_active(pod: Pod) -> bool:
    """Tell whether the pod counts as a replica: neither terminal nor terminating."""
    return (
        not pod.metadata.deletion_timestamp and pod.status.phase not in TERMINAL_PHASES
    )


def is_terminating(pod: Pod) -> bool:
    """Tell whether the pod is being deleted but has not ended yet."""
    return (
        bool(pod.metadata.deletion_timestamp)
        and pod.status.phase not in TERMINAL_PHASES
    )


def has_stopped(pod: Pod) -> bool:
    """Tell whether no container of a pod runs, and none will run.

    The pod has ended, or it is being deleted and each container has ended or waits.
    Upstream: IsPodTerminated of pkg/volume/util.
    """
    if is_terminal(pod):
        return True
    status = pod.status
    containers = (
        *(status.init_container_statuses or ()),
        *(status.container_statuses or ()),
        *(status.ephemeral_container_statuses or ()),
    )
    return bool(pod.metadata.deletion_timestamp) and all(
        each.state.terminated is not None or each.state.waiting is not None
        for each in containers
    )


def ready_condition(pod: Pod) -> PodCondition | None:
    """Return the condition of type Ready, `None` if the pod has none."""
    return find_condition(pod.status.conditions, "Ready")


def is_ready(pod: Pod) -> bool:
    """Tell whether the pod's Ready condition is true."""
    return true_condition(pod.status.conditions, "Ready") is not None


def available_at(pod: Pod, min_ready_seconds: int) -> datetime | None:
    """Return the instant at which a ready pod counts as available.

    `None` means that it will not become available without another change: it is not
    ready, or its Ready condition has no lastTransitionTime.
    """
    condition = ready_condition(pod)
    if condition is None or condition.status != "True":
        return None
    if not condition.last_transition_time:
        return None
    since = parse_time(condition.last_transition_time)
    return since + timedelta(seconds=min_ready_seconds)


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Tell whether the pod has been ready for `min_ready_seconds`."""
    if not is_ready(pod):
        return False
    if min_ready_seconds == 0:
        return True
    instant = available_at(pod, min_ready_seconds)
    return instant is not None and instant <= now


def next_availability(
    pods: Iterable[Pod], min_ready_seconds: int, now: datetime
) -> float | None:
    """Return the seconds until the next ready pod becomes available.

    `None` if no pod becomes available by the passing of time.
    """
    if min_ready_seconds == 0:
        return None
    instants = (available_at(pod, min_ready_seconds) for pod in pods)
    pending = [instant for instant in instants if instant and instant > now]
    if not pending:
        return None
    return (min(pending) - now) / timedelta(seconds=1)
