"""The status of a budget (updatePdbStatus and failSafe of disruption.go)."""

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from controller_manager.api.conditions import Condition, find_condition, with_condition
from controller_manager.api.policy.v1 import (
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
)
from controller_manager.api.times import format_time

from .decide import Health

DISRUPTION_ALLOWED: Final = "DisruptionAllowed"
"""The type of the condition that is true while a pod may be evicted."""

SYNC_FAILED: Final = "SyncFailed"
"""The reason of the condition of a budget that cannot be calculated."""


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
        last_transition_time=format_time(now),
        reason="SufficientPods" if allowed else "InsufficientPods",
    )
    return PodDisruptionBudgetStatus(
        observed_generation=generation,
        disrupted_pods=dict(health.disrupted) or None,
        disruptions_allowed=allowed,
        current_healthy=health.current,
        desired_healthy=health.desired,
        expected_pods=health.expected,
        conditions=with_condition(budget.status.conditions, condition),
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
    """Return the status of a budget that cannot be calculated.

    It allows no disruption. All other fields stay, also the observed generation.
    """
    status = budget.status
    condition = Condition(
        type=DISRUPTION_ALLOWED,
        status="False",
        observed_generation=status.observed_generation,
        last_transition_time=format_time(now),
        reason=SYNC_FAILED,
        message=why,
    )
    return replace(
        status,
        disruptions_allowed=0,
        conditions=with_condition(status.conditions, condition),
    )
