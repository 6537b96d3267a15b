"""The decisions of a sync: before any metric is read, and after; pure.

Recent recommendations hold a change back (stabilization), then minimum, maximum and
rates limit it. Each of the two steps sets a condition.
"""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from controller_manager.api.autoscaling.v2 import (
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerSpec,
)

from .behavior import Limited, complete_rules, limited, limited_by_rate
from .stabilization import History, recommended, stabilized, stabilized_both_ways

_OBJECT: Final = "Object"
_EXTERNAL: Final = "External"

ABOVE_MAXIMUM: Final = "Current number of replicas above Spec.MaxReplicas"
BELOW_MINIMUM: Final = "Current number of replicas below Spec.MinReplicas"
BELOW_TARGET: Final = "All metrics below target"


class FirstDecision(Struct, frozen=True):
    """The first decision: read the metrics of the target, set `desired`, or do nothing.

    If `is_disabled`, the target has zero replicas and stays so. If the number changes,
    `reason` is the reason in the event.
    """

    desired: int
    reason: str = ""
    needs_metrics: bool = False
    is_disabled: bool = False


def minimum_of(spec: HorizontalPodAutoscalerSpec) -> int:
    """Return the least number of replicas; 1 if the spec names none."""
    return 1 if spec.min_replicas is None else spec.min_replicas


def can_leave_zero(spec: HorizontalPodAutoscalerSpec) -> bool:
    """Tell whether a metric has a value also while there are no pods."""
    return any(each.type in (_OBJECT, _EXTERNAL) for each in spec.metrics or ())


def first_decision(
    spec: HorizontalPodAutoscalerSpec, current: int, *, was_scaled_to_zero: bool
) -> FirstDecision:
    """Return the decision about a target that has `current` replicas in its spec.

    `was_scaled_to_zero` is true if an autoscaler, not a user, scaled it to zero.
    Upstream: reconcileAutoscaler in pkg/controller/podautoscaler/horizontal.go.
    """
    minimum = minimum_of(spec)
    if current == 0:
        may_leave = minimum != 0 or can_leave_zero(spec)
        if was_scaled_to_zero and may_leave:
            return FirstDecision(0, needs_metrics=True)
        return FirstDecision(0, is_disabled=True)
    if current > spec.max_replicas:
        return FirstDecision(spec.max_replicas, ABOVE_MAXIMUM)
    if current < minimum:
        return FirstDecision(minimum, BELOW_MINIMUM)
    return FirstDecision(current, needs_metrics=True)


def reason_for(current: int, desired: int, metric: str) -> str:
    """Return the reason of a change that metrics ask for; empty without a change."""
    if desired > current:
        return f"{metric} above target"
    return BELOW_TARGET if desired < current else ""


_TRUE: Final = "True"
_FALSE: Final = "False"


class NormalizationArgs(Struct, frozen=True):
    """The number that the metrics ask for, and the limits of the autoscaler's spec.

    `current` is the number of replicas in the spec of the scale.
    """

    current: int
    desired: int
    minimum: int
    maximum: int
    behavior: HorizontalPodAutoscalerBehavior | None = None


class ConditionChange(Struct, frozen=True):
    """A new status of a condition, with reason and message."""

    status: str
    reason: str
    message: str


class Normalized(Struct, frozen=True):
    """The new number of replicas, the two conditions, and the new history."""

    replicas: int
    able_to_scale: ConditionChange
    scaling_limited: ConditionChange
    history: History


def normalized(
    args: NormalizationArgs,
    history: History,
    now: datetime,
    downscale_stabilization: timedelta,
) -> Normalized:
    """Return the number to which the scale is set.

    `downscale_stabilization` is the window for scaling down of an autoscaler whose
    behavior names none. The result lies between minimum and
    maximum if the current number does.

    Upstream: normalizeDesiredReplicas and normalizeDesiredReplicasWithBehaviors in
    pkg/controller/podautoscaler/horizontal.go.
    """
    if args.behavior is None:
        stable = stabilized(history, args.desired, now, downscale_stabilization)
        window = downscale_stabilization
        result = limited(args.current, stable, args.minimum, args.maximum)
    else:
        seconds = int(downscale_stabilization.total_seconds())
        rules = complete_rules(args.behavior, seconds)
        stable = stabilized_both_ways(
            history, args.current, args.desired, now, rules.windows
        )
        window = rules.longest_window
        bounds = args.minimum, args.maximum
        result = limited_by_rate(args.current, stable, bounds, rules, history, now)
    return Normalized(
        result.replicas,
        stabilization_condition(
            args.current, args.desired, stable, by_rules=args.behavior is not None
        ),
        limit_condition(stable, result),
        recommended(history, args.desired, now, window),
    )


def stabilization_condition(
    current: int, desired: int, stable: int, *, by_rules: bool
) -> ConditionChange:
    """Return AbleToScale, which shows whether recommendations held a change back.

    With `by_rules` there is a behavior, which may hold back a scaling up, too.
    """
    if stable == desired:
        message = "recommended size matches current size"
        return ConditionChange(_TRUE, "ReadyForNewScale", message)
    if by_rules and desired >= current:
        message = (
            "recent recommendations were lower than current one, "
            "applying the lowest recent recommendation"
        )
        return ConditionChange(_TRUE, "ScaleUpStabilized", message)
    message = (
        "recent recommendations were higher than current one, "
        "applying the highest recent recommendation"
    )
    return ConditionChange(_TRUE, "ScaleDownStabilized", message)


def limit_condition(stable: int, result: Limited) -> ConditionChange:
    """Return the condition ScalingLimited: true if a limit changed the number."""
    status = _FALSE if result.replicas == stable else _TRUE
    return ConditionChange(status, result.reason, result.message)
