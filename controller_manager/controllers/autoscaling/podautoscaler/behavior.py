"""The number of replicas that limits, windows and rates allow; pure.

Recent recommendations hold a change back (stabilization), then minimum, maximum and
rates limit it. Upstream: pkg/controller/podautoscaler/horizontal.go.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.autoscaling.v2 import (
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerSpec,
    HPAScalingPolicy,
    HPAScalingRules,
)

from .replica_calculator import rounded_up

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
    return any(each.type in ("Object", "External") for each in spec.metrics or ())


def first_decision(
    spec: HorizontalPodAutoscalerSpec, current: int, *, was_scaled_to_zero: bool
) -> FirstDecision:
    """Return the decision about a target (reconcileAutoscaler).

    `was_scaled_to_zero` is true if an autoscaler, not a user, scaled it to zero.
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


class Recommendation(Struct, frozen=True):
    """The number of replicas that the metrics asked for at one time."""

    replicas: int
    at: datetime


class ScaleEvent(Struct, frozen=True):
    """A change of scale at one time: the number of replicas, never negative."""

    change: int
    at: datetime


class History(Struct, frozen=True):
    """The recent recommendations and changes of scale of one autoscaler."""

    recommendations: tuple[Recommendation, ...] = ()
    scale_ups: tuple[ScaleEvent, ...] = ()
    scale_downs: tuple[ScaleEvent, ...] = ()


def started(history: History, replicas: int, now: datetime) -> History:
    """Return the history with a recommendation (recordInitialRecommendation)."""
    # The number of replicas that a new manager finds counts as recommended: so a
    # restart does not shorten the stabilization.
    if history.recommendations:
        return history
    return replace(history, recommendations=(Recommendation(replicas, now),))


def recommended(
    history: History, replicas: int, now: datetime, keep: timedelta
) -> History:
    """Return the history with a recommendation, without those older than `keep`."""
    oldest = now - keep
    kept = tuple(each for each in history.recommendations if each.at >= oldest)
    return replace(history, recommendations=(*kept, Recommendation(replicas, now)))


def scaled(
    history: History, before: int, after: int, now: datetime, keep: timedelta
) -> History:
    """Return the history with a change of scale (storeScaleEvent)."""
    # Changes older than `keep` are dropped: that is the longest period of a policy. The
    # policies of one direction count the changes of both.
    oldest = now - keep
    ups = tuple(each for each in history.scale_ups if each.at >= oldest)
    downs = tuple(each for each in history.scale_downs if each.at >= oldest)
    if after > before:
        ups = (*ups, ScaleEvent(after - before, now))
    elif after < before:
        downs = (*downs, ScaleEvent(before - after, now))
    return replace(history, scale_ups=ups, scale_downs=downs)


def stabilized(history: History, desired: int, now: datetime, window: timedelta) -> int:
    """Return the highest recommendation of the window (stabilizeRecommendation)."""
    begin = now - window
    recent = (each.replicas for each in history.recommendations if each.at > begin)
    return max((desired, *recent))


def stabilized_both_ways(
    history: History,
    current: int,
    desired: int,
    now: datetime,
    windows: tuple[timedelta, timedelta],
) -> int:
    """Return the number nearest to `current` that recent recommendations allow.

    More replicas need that all of the window for scaling up ask for more, fewer that
    all of the window for scaling down ask for fewer
    (stabilizeRecommendationWithBehaviors).
    """
    up_begin, down_begin = (now - each for each in windows)
    recent = history.recommendations
    lowest = min((desired, *(each.replicas for each in recent if each.at > up_begin)))
    highest = max(
        (desired, *(each.replicas for each in recent if each.at > down_begin))
    )
    return min(max(current, lowest), highest)


PERCENT: Final = "Percent"

_UP: Final = HPAScalingRules(
    stabilization_window_seconds=0,
    select_policy="Max",
    policies=(HPAScalingPolicy("Pods", 4, 15), HPAScalingPolicy(PERCENT, 100, 15)),
)
_DOWN: Final = HPAScalingRules(
    select_policy="Max", policies=(HPAScalingPolicy(PERCENT, 100, 15),)
)


class ScalingRules(Struct, frozen=True):
    """The complete rules of both directions: no field but the tolerance is `None`."""

    up: HPAScalingRules
    down: HPAScalingRules

    @property
    def windows(self) -> tuple[timedelta, timedelta]:
        """The stabilization windows for scaling up and for scaling down."""
        return (
            timedelta(seconds=self.up.stabilization_window_seconds or 0),
            timedelta(seconds=self.down.stabilization_window_seconds or 0),
        )

    @property
    def longest_period(self) -> timedelta:
        """The longest period of all policies of both directions."""
        policies = (*(self.up.policies or ()), *(self.down.policies or ()))
        seconds = max((each.period_seconds for each in policies), default=0)
        return timedelta(seconds=seconds)


def complete_rules(
    behavior: HorizontalPodAutoscalerBehavior, downscale_stabilization: int = 0
) -> ScalingRules:
    """Return the rules of a behavior.

    `downscale_stabilization` is the window for scaling down, in seconds, of a behavior
    that names none. Upstream: pkg/apis/autoscaling/v2/defaults.go, which the API server
    applies, and maybeInitScaleDownStabilizationWindow.
    """
    down = replace(_DOWN, stabilization_window_seconds=downscale_stabilization)
    return ScalingRules(
        _completed(behavior.scale_up, _UP), _completed(behavior.scale_down, down)
    )


def _completed(
    rules: HPAScalingRules | None, defaults: HPAScalingRules
) -> HPAScalingRules:
    if rules is None:
        return defaults
    given = {
        name: value
        for name in HPAScalingRules.__struct_fields__
        if (value := getattr(rules, name)) is not None
    }
    return replace(defaults, **given)


WITHIN_RANGE: Final = "DesiredWithinRange"
TOO_FEW: Final = "TooFewReplicas"
TOO_MANY: Final = "TooManyReplicas"
UP_LIMIT: Final = "ScaleUpLimit"
DOWN_LIMIT: Final = "ScaleDownLimit"

_MESSAGES: Final = {
    WITHIN_RANGE: "the desired count is within the acceptable range",
    TOO_FEW: "the desired replica count is less than the minimum replica count",
    TOO_MANY: "the desired replica count is more than the maximum replica count",
    UP_LIMIT: (
        "the desired replica count is increasing faster than the maximum scale rate"
    ),
    DOWN_LIMIT: (
        "the desired replica count is decreasing faster than the maximum scale rate"
    ),
}


class Limited(Struct, frozen=True):
    """A number of replicas within the limits, and the limit that decided it.

    The reason and the message are those of the condition ScalingLimited.
    """

    replicas: int
    reason: str

    @property
    def message(self) -> str:
        """The message of the condition."""
        return _MESSAGES[self.reason]


def limited(current: int, desired: int, minimum: int, maximum: int) -> Limited:
    """Return the number nearest to `desired` that the limits allow."""
    # In one step the number may double, or reach 4: a wrong metric must not multiply a
    # workload (convertDesiredReplicasWithRules).
    if desired < minimum:
        return Limited(minimum, TOO_FEW)
    reachable = rounded_up(max(2.0 * current, 4.0))
    if desired > min(maximum, reachable):
        return _most(reachable, maximum)
    return Limited(desired, WITHIN_RANGE)


def _most(reachable: int, maximum: int) -> Limited:
    if maximum > reachable:
        return Limited(reachable, UP_LIMIT)
    return Limited(maximum, TOO_MANY)


def limited_by_rate(
    current: int,
    desired: int,
    bounds: tuple[int, int],
    rules: ScalingRules,
    history: History,
    now: datetime,
) -> Limited:
    """Return the number nearest to `desired` within bounds and policies."""
    # Upstream: convertDesiredReplicasWithBehaviorRate.
    minimum, maximum = bounds
    if desired > current:
        reachable = max(_reachable(current, rules.up, history, now, way=1), current)
        if desired > min(maximum, reachable):
            return _most(reachable, maximum)
    elif desired < current:
        reachable = min(_reachable(current, rules.down, history, now, way=-1), current)
        if desired < max(minimum, reachable):
            if minimum < reachable:
                return Limited(reachable, DOWN_LIMIT)
            return Limited(minimum, TOO_FEW)
    return Limited(desired, WITHIN_RANGE)


def _reachable(
    current: int, rules: HPAScalingRules, history: History, now: datetime, *, way: int
) -> int:
    """Return how far the policies of one way, 1 for up and -1 for down, let it go."""
    if rules.select_policy == "Disabled":
        return current
    reachable = []
    for policy in rules.policies or ():
        begin = now - timedelta(seconds=policy.period_seconds)
        added = _changed_after(begin, history.scale_ups)
        start = current - added + _changed_after(begin, history.scale_downs)
        if policy.type == PERCENT:
            # Upwards it is rounded up: 10 % of one replica would never be a change.
            share = start * (1 + way * policy.value / 100)
            reachable.append(rounded_up(share) if way > 0 else int(share))
        else:
            reachable.append(start + way * policy.value)
    furthest = way if rules.select_policy != "Min" else -way
    return max(reachable, key=lambda each: furthest * each, default=current)


def _changed_after(begin: datetime, events: Iterable[ScaleEvent]) -> int:
    return sum(each.change for each in events if each.at > begin)


class Normalized(Struct, frozen=True):
    """The number of replicas after all limits, and why it is so.

    `stabilization` is the reason and the message of the condition AbleToScale: they
    show whether recommendations held a change back. `is_limited` is true if a limit
    changed the number.
    """

    limit: Limited
    stabilization: tuple[str, str]
    is_limited: bool
    history: History


def normalized(
    spec: HorizontalPodAutoscalerSpec,
    current: int,
    desired: int,
    history: History,
    now: datetime,
    downscale_stabilization: timedelta,
) -> Normalized:
    """Return the number to which the scale is set.

    `current` is the number in the spec of the scale; the metrics ask for `desired`.
    `downscale_stabilization` is for an autoscaler whose behavior names no window.
    Upstream: normalizeDesiredReplicas and normalizeDesiredReplicasWithBehaviors.
    """
    minimum, maximum = minimum_of(spec), spec.max_replicas
    if spec.behavior is None:
        window = downscale_stabilization
        stable = stabilized(history, desired, now, window)
        result = limited(current, stable, minimum, maximum)
    else:
        seconds = int(downscale_stabilization.total_seconds())
        rules = complete_rules(spec.behavior, seconds)
        window = max(rules.windows)
        stable = stabilized_both_ways(history, current, desired, now, rules.windows)
        bounds = minimum, maximum
        result = limited_by_rate(current, stable, bounds, rules, history, now)
    return Normalized(
        result,
        stabilization(current, desired, stable, by_rules=spec.behavior is not None),
        result.replicas != stable,
        recommended(history, desired, now, window),
    )


def stabilization(
    current: int, desired: int, stable: int, *, by_rules: bool
) -> tuple[str, str]:
    """Return the reason and the message of AbleToScale."""
    if stable == desired:
        return "ReadyForNewScale", "recommended size matches current size"
    if by_rules and desired >= current:
        message = (
            "recent recommendations were lower than current one, "
            "applying the lowest recent recommendation"
        )
        return "ScaleUpStabilized", message
    message = (
        "recent recommendations were higher than current one, "
        "applying the highest recent recommendation"
    )
    return "ScaleDownStabilized", message
