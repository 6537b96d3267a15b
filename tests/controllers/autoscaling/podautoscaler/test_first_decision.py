"""The decision about a target before any metric is read."""

import pytest

from controller_manager.api.autoscaling.v2 import (
    HorizontalPodAutoscalerSpec,
    MetricSpec,
)
from controller_manager.controllers.autoscaling.podautoscaler.behavior import (
    ABOVE_MAXIMUM,
    BELOW_MINIMUM,
    BELOW_TARGET,
    FirstDecision,
    first_decision,
    reason_for,
)

READ = FirstDecision(3, needs_metrics=True)
FROM_ZERO = FirstDecision(0, needs_metrics=True)
DISABLED = FirstDecision(0, is_disabled=True)


def spec(minimum: int | None, metric: str = "Resource") -> HorizontalPodAutoscalerSpec:
    return HorizontalPodAutoscalerSpec(
        min_replicas=minimum, max_replicas=5, metrics=(MetricSpec(type=metric),)
    )


@pytest.mark.parametrize(
    ("current", "minimum", "expected"),
    [
        (3, 1, READ),
        (3, 3, READ),
        (3, None, READ),
        (6, 1, FirstDecision(5, ABOVE_MAXIMUM)),
        (3, 4, FirstDecision(4, BELOW_MINIMUM)),
        (0, 1, DISABLED),
        (0, None, DISABLED),
        (0, 0, DISABLED),
    ],
)
def test_metrics_are_read_only_within_the_limits(
    current: int, minimum: int | None, expected: FirstDecision
) -> None:
    """A target at zero that no autoscaler has scaled there is left alone."""
    assert first_decision(spec(minimum), current, was_scaled_to_zero=False) == expected


@pytest.mark.parametrize(
    ("minimum", "metric", "expected"),
    [
        (0, "External", FROM_ZERO),
        (0, "Object", FROM_ZERO),
        (0, "Resource", DISABLED),
        (0, "Pods", DISABLED),
        (1, "Resource", FROM_ZERO),
        (2, "External", FROM_ZERO),
    ],
)
def test_a_target_that_an_autoscaler_scaled_to_zero_can_be_scaled_up(
    minimum: int, metric: str, expected: FirstDecision
) -> None:
    """By a metric that needs no pods, or because the minimum was raised."""
    assert first_decision(spec(minimum, metric), 0, was_scaled_to_zero=True) == expected


@pytest.mark.parametrize(
    ("desired", "reason"), [(4, "cpu above target"), (2, BELOW_TARGET), (3, "")]
)
def test_an_event_says_which_metric_asks_for_more(desired: int, reason: str) -> None:
    """For fewer replicas all metrics must ask."""
    assert reason_for(3, desired, "cpu") == reason
