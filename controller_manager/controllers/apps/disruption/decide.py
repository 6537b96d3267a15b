"""The number of disruptions that a budget allows (disruption.go); pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.api.intstr import scaled_value
from controller_manager.api.meta import is_deleting
from controller_manager.api.pods import is_ready
from controller_manager.api.policy.v1 import PodDisruptionBudget
from controller_manager.api.times import parse_time

DELETION_TIMEOUT: Final = timedelta(minutes=2)
"""The time for which a pod counts as disrupted after its eviction was allowed.

It ends earlier if the pod is deleted.
"""


class Health(Struct, frozen=True):
    """The pods of a budget, counted.

    `disrupted` has the pods whose eviction was allowed, and whose deletion the cache
    does not show yet. `not_deleted` has the names of pods that were not deleted in
    time. `requeue_after` are the seconds until the time of the next pod is over, `None`
    for no such pod.
    """

    expected: int
    desired: int
    current: int
    disrupted: Mapping[str, str]
    not_deleted: tuple[str, ...] = ()
    requeue_after: float | None = None

    @property
    def allowed(self) -> int:
        """The number of pods that may be evicted now.

        It is 0 while no pods are expected. When the first pods of a budget appear, its
        status does not count them yet. A budget without limits expects no pods.
        """
        return max(0, self.current - self.desired) if self.expected > 0 else 0


def is_limited(budget: PodDisruptionBudget) -> bool:
    """Tell whether a budget has a limit, which may be 0.

    A budget without a limit expects no pods (getExpectedPodCount). So it allows no
    eviction of the pods that it selects.
    """
    spec = budget.spec
    return spec.max_unavailable is not None or spec.min_available is not None


def needs_scales(budget: PodDisruptionBudget) -> bool:
    """Tell whether the limit of a budget depends on the scales of the pods' owners.

    A number of pods that must stay available does not: existing pods are counted.
    """
    spec = budget.spec
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def desired_healthy(budget: PodDisruptionBudget, expected: int) -> int:
    """Return the number of expected pods that must be healthy (getExpectedPodCount).

    Percentages are rounded up. Raises IntOrStringError for a malformed percentage.
    """
    spec = budget.spec
    if spec.max_unavailable is not None:
        unavailable = scaled_value(spec.max_unavailable, expected, round_up=True)
        return max(0, expected - unavailable)
    if spec.min_available is not None:
        return scaled_value(spec.min_available, expected, round_up=True)
    return 0


def assess(
    budget: PodDisruptionBudget,
    pods: Sequence[Pod],
    expected: int,
    now: datetime,
) -> Health:
    """Count the pods of a budget (buildDisruptedPodMap, countHealthyPods).

    A pod is healthy if it is ready, is not being deleted, and is not disrupted.
    Raises IntOrStringError for a limit that cannot be evaluated.
    """
    disrupted: dict[str, str] = {}
    not_deleted: list[str] = []
    deadlines: list[datetime] = []
    recorded = budget.status.disrupted_pods or {}
    current = 0
    for pod in pods:
        if is_deleting(pod):
            continue
        name = pod.metadata.name
        if (since := recorded.get(name)) is not None:
            deadline = parse_time(since) + DELETION_TIMEOUT
            if deadline > now:
                disrupted[name] = since
                deadlines.append(deadline)
                continue
            not_deleted.append(name)
        current += is_ready(pod)
    return Health(
        expected,
        desired_healthy(budget, expected),
        current,
        disrupted,
        tuple(not_deleted),
        _seconds_until(deadlines, now),
    )


def _seconds_until(deadlines: Sequence[datetime], now: datetime) -> float | None:
    return (min(deadlines) - now).total_seconds() if deadlines else None
