"""Pods that fail as soon as they exist, and the delays before they are replaced.

A kubelet rejects pods for which its node has no room, and the taint-eviction-controller
evicts pods that do not tolerate the taints of their node.
"""

from datetime import datetime
from typing import Final

from controller_manager.api.conditions import true_condition
from controller_manager.api.core.v1 import Pod
from controller_manager.api.times import parse_time

AT_ONCE: Final = 10.0
"""A pod that fails within these seconds after its creation has failed at once.

A pod that is older, and neither failed nor ready, counts as healthy: it may wait for an
image or for a node.
"""

FIRST_DELAY: Final = 1.0
LONGEST_DELAY: Final = 900.0
"""The seconds before the second and before the last replacements.

The first ones come without a delay.
"""

ROUNDING: Final = 1e-6
"""A shorter remainder is a floating-point error, not a delay."""

_DISRUPTION: Final = "DisruptionTarget"
_BY_TAINT: Final = "DeletionByTaintManager"


def delay_after(last: float) -> float:
    """Return the delay that follows the last one, which was 0 for the first failure."""
    return min(max(2 * last, FIRST_DELAY), LONGEST_DELAY)


def age(pod: Pod, now: datetime) -> float:
    """Return the seconds since the creation of a pod, by the API server's time."""
    created = pod.metadata.creation_timestamp
    return (now - parse_time(created)).total_seconds() if created else 0.0


def has_failed(pod: Pod) -> bool:
    """Tell whether a pod has failed, or is evicted because of a taint."""
    if pod.status.phase == "Failed":
        return True
    disruption = true_condition(pod.status.conditions, _DISRUPTION)
    return disruption is not None and disruption.reason == _BY_TAINT


def failed_at_once(pod: Pod, now: datetime) -> bool:
    """Tell whether a failed pod is so young that it has failed at once."""
    return has_failed(pod) and age(pod, now) < AT_ONCE
