"""The state of a pod, as a stateful set distinguishes it (stateful_set_utils.go)."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting
from controller_manager.api.pods import available_at, is_available, is_ready


def is_running_and_ready(pod: Pod) -> bool:
    """Tell whether the pod runs and is ready; it may be terminating."""
    return pod.status.phase == "Running" and is_ready(pod)


def is_unavailable(pod: Pod | None, min_ready_seconds: int, now: datetime) -> bool:
    """Tell whether the pod is missing, terminating, or not ready for long enough."""
    if pod is None or is_deleting(pod):
        return True
    return not is_available(pod, min_ready_seconds, now)


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
