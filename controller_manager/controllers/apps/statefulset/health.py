"""The state of a pod, as a stateful set distinguishes it (stateful_set_utils.go)."""

from datetime import datetime

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting
from controller_manager.api.pods import is_available, is_ready


def is_running_and_ready(pod: Pod) -> bool:
    """Tell whether the pod runs and is ready; it may be terminating."""
    return pod.status.phase == "Running" and is_ready(pod)


def is_unavailable(pod: Pod | None, min_ready_seconds: int, now: datetime) -> bool:
    """Tell whether the pod is missing, terminating, or not ready for long enough."""
    if pod is None or is_deleting(pod):
        return True
    return not is_available(pod, min_ready_seconds, now)
