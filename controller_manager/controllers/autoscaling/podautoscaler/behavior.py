"""The scaling rules of a behavior, and the limits of a change of scale."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.autoscaling.v2 import (
    HorizontalPodAutoscalerBehavior,
    HPAScalingPolicy,
    HPAScalingRules,
)

from . import replica_calculator
from .stabilization import History, ScaleEvent

PODS: Final = "Pods"
PERCENT: Final = "Percent"

MAX: Final = "Max"
MIN: Final = "Min"
DISABLED: Final = "Disabled"

_UP: Final = HPAScalingRules(
    stabilization_window_seconds=0,
    select_policy=MAX,
    policies=(HPAScalingPolicy(PODS, 4, 15), HPAScalingPolicy(PERCENT, 100, 15)),
)
_DOWN: Final = HPAScalingRules(
    select_policy=MAX, policies=(HPAScalingPolicy(PERCENT, 100, 15),)
)


class ScalingRules(Struct, frozen=True):
    """The complete rules of both directions: no field but the tolerance is `None`."""

    up: HPAScalingRules
    down: HPAScalingRules

    @property
    def longest_window(self) -> timedelta:
        """The longer of the two stabilization windows."""
        return max(self.windows)

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
    that names none.

    Upstream: GenerateHPAScaleUpRules and GenerateHPAScaleDownRules in
    pkg/apis/autoscaling/v2/defaults.go, which the API server applies; and
    maybeInitScaleDownStabilizationWindow in pkg/controller/podautoscaler/horizontal.go.
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


_FACTOR: Final = 2.0
_AT_LEAST: Final = 4.0


class Limited(Struct, frozen=True):
    """A number of replicas within the limits, and the limit that decided it.

    The reason and the message are those of the condition ScalingLimited.
    """

    replicas: int
    reason: str
    message: str


def within_range(replicas: int) -> Limited:
    """Return a number that no limit changes."""
    message = "the desired count is within the acceptable range"
    return Limited(replicas, "DesiredWithinRange", message)


def too_few(minimum: int) -> Limited:
    """Return the minimum, where fewer are desired."""
    message = "the desired replica count is less than the minimum replica count"
    return Limited(minimum, "TooFewReplicas", message)


def too_many(maximum: int) -> Limited:
    """Return the maximum, where more are desired."""
    message = "the desired replica count is more than the maximum replica count"
    return Limited(maximum, "TooManyReplicas", message)


def too_fast_up(limit: int) -> Limited:
    """Return the most that the rates allow now, where more are desired."""
    message = (
        "the desired replica count is increasing faster than the maximum scale rate"
    )
    return Limited(limit, "ScaleUpLimit", message)


def too_fast_down(limit: int) -> Limited:
    """Return the fewest that the rates allow now, where fewer are desired."""
    message = (
        "the desired replica count is decreasing faster than the maximum scale rate"
    )
    return Limited(limit, "ScaleDownLimit", message)


def limited(current: int, desired: int, minimum: int, maximum: int) -> Limited:
    """Return the number nearest to `desired` that the limits allow.

    In one step the number may double, or reach 4: a wrong metric must not multiply a
    workload.

    Upstream: convertDesiredReplicasWithRules in
    pkg/controller/podautoscaler/horizontal.go.
    """
    if desired < minimum:
        return too_few(minimum)
    reachable = replica_calculator.rounded_up(max(_FACTOR * current, _AT_LEAST))
    if desired > min(maximum, reachable):
        return too_fast_up(reachable) if maximum > reachable else too_many(maximum)
    return within_range(desired)


def limited_by_rate(
    current: int,
    desired: int,
    bounds: tuple[int, int],
    rules: ScalingRules,
    history: History,
    now: datetime,
) -> Limited:
    """Return the number nearest to `desired` that bounds and policies allow.

    `bounds` are the minimum and the maximum.

    Upstream: convertDesiredReplicasWithBehaviorRate in
    pkg/controller/podautoscaler/horizontal.go.
    """
    minimum, maximum = bounds
    if desired > current:
        reachable = max(_highest(current, rules.up, history, now), current)
        if desired > min(maximum, reachable):
            return too_fast_up(reachable) if maximum > reachable else too_many(maximum)
    elif desired < current:
        reachable = min(_lowest(current, rules.down, history, now), current)
        if desired < max(minimum, reachable):
            return too_fast_down(reachable) if minimum < reachable else too_few(minimum)
    return within_range(desired)


def _highest(
    current: int, rules: HPAScalingRules, history: History, now: datetime
) -> int:
    """Return the most replicas that the policies allow now.

    A percentage is rounded up: 10 % of one replica would never be a change.
    """
    if rules.select_policy == DISABLED:
        return current
    reachable = (
        replica_calculator.rounded_up(start * (1 + policy.value / 100))
        if policy.type == PERCENT
        else start + policy.value
        for policy, start in _starts(current, rules, history, now)
    )
    choose = min if rules.select_policy == MIN else max
    return choose(reachable, default=current)


def _lowest(
    current: int, rules: HPAScalingRules, history: History, now: datetime
) -> int:
    """Return the fewest replicas that the policies allow now."""
    if rules.select_policy == DISABLED:
        return current
    reachable = (
        int(start * (1 - policy.value / 100))
        if policy.type == PERCENT
        else start - policy.value
        for policy, start in _starts(current, rules, history, now)
    )
    choose = max if rules.select_policy == MIN else min
    return choose(reachable, default=current)


def _starts(
    current: int, rules: HPAScalingRules, history: History, now: datetime
) -> Iterator[tuple[HPAScalingPolicy, int]]:
    """Yield each policy with the number of replicas when its period began."""
    for policy in rules.policies or ():
        begin = now - timedelta(seconds=policy.period_seconds)
        added = _changed_after(begin, history.scale_ups)
        removed = _changed_after(begin, history.scale_downs)
        yield policy, current - added + removed


def _changed_after(begin: datetime, events: Iterable[ScaleEvent]) -> int:
    return sum(each.change for each in events if each.at > begin)
