"""The status of an autoscaler is drafted condition by condition."""

from datetime import timedelta

from controller_manager.api.autoscaling.v2 import (
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus,
    MetricStatus,
)
from controller_manager.controllers.autoscaling.podautoscaler.status import (
    ABLE_TO_SCALE,
    FALSE,
    SCALED_TO_ZERO,
    SCALING_ACTIVE,
    TRUE,
    Draft,
)
from tests.clusters import EPOCH

BEFORE = "2019-01-01T00:00:00Z"
NOW = EPOCH + timedelta(seconds=1.7)


def condition(
    kind: str, status: str, since: str, reason: str = "r", message: str = "m"
) -> HorizontalPodAutoscalerCondition:
    return HorizontalPodAutoscalerCondition(
        type=kind,
        status=status,
        last_transition_time=since,
        reason=reason,
        message=message,
    )


STATUS = HorizontalPodAutoscalerStatus(
    observed_generation=3,
    last_scale_time=BEFORE,
    current_replicas=2,
    desired_replicas=4,
    current_metrics=(MetricStatus(type="Resource"),),
    conditions=(
        condition(ABLE_TO_SCALE, TRUE, BEFORE),
        condition(SCALED_TO_ZERO, TRUE, BEFORE),
    ),
)


def draft() -> Draft:
    return Draft(HorizontalPodAutoscaler(status=STATUS), NOW)


def test_the_time_of_a_condition_changes_only_with_its_status() -> None:
    """Reason and message always change; a new condition comes last."""
    drafted = draft()
    drafted.set(ABLE_TO_SCALE, TRUE, "other", "text")
    drafted.set(SCALED_TO_ZERO, FALSE, "other", "text")
    drafted.set(SCALING_ACTIVE, FALSE, "other", "text")
    second = (EPOCH + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert drafted.status().conditions == (
        condition(ABLE_TO_SCALE, TRUE, BEFORE, "other", "text"),
        condition(SCALED_TO_ZERO, FALSE, second, "other", "text"),
        condition(SCALING_ACTIVE, FALSE, second, "other", "text"),
    )
    assert [drafted.is_true(each) for each in (ABLE_TO_SCALE, SCALED_TO_ZERO)] == [
        True,
        False,
    ]


def test_a_target_that_cannot_be_read_changes_only_conditions() -> None:
    """Numbers and metrics stay, and so does the observed generation."""
    drafted = draft()
    drafted.remove(SCALED_TO_ZERO)
    drafted.remove(SCALING_ACTIVE)
    expected = condition(ABLE_TO_SCALE, TRUE, BEFORE)
    status = drafted.status()
    assert (status.conditions, status.current_replicas) == ((expected,), 2)
    assert (status.observed_generation, status.desired_replicas) == (3, 4)


def test_measured_metrics_leave_the_desired_number() -> None:
    """The status has no observed generation, as upstream's."""
    drafted = draft()
    drafted.measured(7, [MetricStatus()])
    assert drafted.status() == HorizontalPodAutoscalerStatus(
        last_scale_time=BEFORE,
        current_replicas=7,
        desired_replicas=4,
        current_metrics=(MetricStatus(),),
        conditions=STATUS.conditions,
    )


def test_only_a_change_of_scale_sets_its_time() -> None:
    """The time has whole seconds."""
    drafted = draft()
    drafted.decided(7, 7, [])
    assert drafted.status().last_scale_time == BEFORE
    drafted.decided(7, 9, [], rescaled=True)
    second = (EPOCH + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert drafted.status() == HorizontalPodAutoscalerStatus(
        last_scale_time=second,
        current_replicas=7,
        desired_replicas=9,
        conditions=STATUS.conditions,
    )
