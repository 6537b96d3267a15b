"""How many disruptions a budget allows; pure functions (disruption.go)."""

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
"""How long a pod that may be evicted counts as disrupted while it is not deleted."""


class Health(Struct, frozen=True):
    """The pods of a budget, counted.

    `disrupted` has the pods whose eviction was allowed and whose deletion is not seen
    yet, `not_deleted` the names of those for which that has lasted too long. `recheck`
    are the seconds until the next of them has lasted too long, `None` for none.
    """

    expected: int
    desired: int
    current: int
    disrupted: Mapping[str, str]
    not_deleted: tuple[str, ...] = ()
    recheck: float | None = None

    @property
    def allowed(self) -> int:
        """How many pods may be evicted now.

        No pod may be while none is expected: when the first pods of a budget appear,
        its status does not count them yet, and a budget without limits expects none.
        """
        return max(0, self.current - self.desired) if self.expected > 0 else 0


def is_limited(budget: PodDisruptionBudget) -> bool:
    """Tell whether a budget has a limit, which may be 0.

    A budget without one expects no pods (getExpectedPodCount), so it allows no eviction
    of those that it selects.
    """
    spec = budget.spec
    return spec.max_unavailable is not None or spec.min_available is not None


def needs_scales(budget: PodDisruptionBudget) -> bool:
    """Tell whether the limit of a budget relates to the scales of the pods' owners.

    A number of pods to stay available does not: it counts the pods that there are.
    """
    spec = budget.spec
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def desired_healthy(budget: PodDisruptionBudget, expected: int) -> int:
    """Return how many of the expected pods must be healthy (getExpectedPodCount).

    Percentages are rounded up. Raises IntOrStringError for a text that is none.
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

    A pod is healthy if it is ready, is not being deleted, and is not about to be.
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
