"""The number of disruptions that a budget allows, and its status (disruption.go)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import (
    Condition,
    find_condition,
    is_deleting,
    set_condition,
)
from controller_manager.api.pods import is_ready
from controller_manager.api.policy.v1 import (
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
)
from controller_manager.api.scalars import parse_time, scaled_value

DELETION_TIMEOUT: Final = timedelta(minutes=2)
"""The time for which a pod counts as disrupted after its eviction was allowed.

It ends earlier if the pod is deleted.
"""

DISRUPTION_ALLOWED: Final = "DisruptionAllowed"
"""The type of the condition that is true while a pod may be evicted."""

SYNC_FAILED: Final = "SyncFailed"
"""The reason of the condition of a budget that cannot be calculated."""


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
        """The number of pods that may be evicted now; 0 while none are expected."""
        # When the first pods of a budget appear, its status does not count them yet.
        return max(0, self.current - self.desired) if self.expected > 0 else 0


def is_limited(budget: PodDisruptionBudget) -> bool:
    """Tell whether a budget has a limit, maybe 0; else it allows no eviction."""
    spec = budget.spec
    return spec.max_unavailable is not None or spec.min_available is not None


def needs_scales(budget: PodDisruptionBudget) -> bool:
    """Tell whether the limit depends on the scales of the pods' owners."""
    spec = budget.spec
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def desired_healthy(budget: PodDisruptionBudget, expected: int) -> int:
    """Return the expected pods that must be healthy (getExpectedPodCount).

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
    budget: PodDisruptionBudget, pods: Sequence[Pod], expected: int, now: datetime
) -> Health:
    """Count the pods of a budget (buildDisruptedPodMap, countHealthyPods).

    Healthy is a ready pod that is neither being deleted nor disrupted. Raises
    IntOrStringError for a limit that cannot be evaluated.
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
        (min(deadlines) - now).total_seconds() if deadlines else None,
    )


def calculated_status(
    budget: PodDisruptionBudget, health: Health, now: datetime
) -> PodDisruptionBudgetStatus:
    """Return the status with the counted numbers."""
    generation = budget.metadata.generation
    allowed = health.allowed
    condition = Condition(
        type=DISRUPTION_ALLOWED,
        status="True" if allowed else "False",
        observed_generation=generation,
        reason="SufficientPods" if allowed else "InsufficientPods",
    )
    return PodDisruptionBudgetStatus(
        observed_generation=generation,
        disrupted_pods=dict(health.disrupted) or None,
        disruptions_allowed=allowed,
        current_healthy=health.current,
        desired_healthy=health.desired,
        expected_pods=health.expected,
        conditions=set_condition(budget.status.conditions, condition, now),
    )


def says_failure(budget: PodDisruptionBudget, why: str) -> bool:
    """Tell whether the status has this reason for a failed sync already."""
    condition = find_condition(budget.status.conditions, DISRUPTION_ALLOWED)
    if condition is None or condition.reason != SYNC_FAILED:
        return False
    return condition.message == why


def failed_status(
    budget: PodDisruptionBudget, why: str, now: datetime
) -> PodDisruptionBudgetStatus:
    """Return the status that allows no disruption; all other fields stay."""
    status = budget.status
    condition = Condition(
        type=DISRUPTION_ALLOWED,
        status="False",
        observed_generation=status.observed_generation,
        reason=SYNC_FAILED,
        message=why,
    )
    return replace(
        status,
        disruptions_allowed=0,
        conditions=set_condition(status.conditions, condition, now),
    )
