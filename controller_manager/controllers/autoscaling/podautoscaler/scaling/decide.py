"""From what the metrics ask for to what the scale is set to.

Recent recommendations hold a change back (stabilization), then minimum, maximum and
rates limit it. Both leave a condition that says what they did.
"""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from controller_manager.api.autoscaling.v2 import HorizontalPodAutoscalerBehavior
from controller_manager.controllers.autoscaling.podautoscaler.scaling.history import (
    History,
    recommended,
)
from controller_manager.controllers.autoscaling.podautoscaler.scaling.limits import (
    Limited,
    limited,
)
from controller_manager.controllers.autoscaling.podautoscaler.scaling.rates import (
    limited_by_rate,
)
from controller_manager.controllers.autoscaling.podautoscaler.scaling.rules import (
    complete_rules,
)
from controller_manager.controllers.autoscaling.podautoscaler.scaling.windows import (
    stabilized,
    stabilized_by_rules,
)

_TRUE: Final = "True"
_FALSE: Final = "False"


class Wish(Struct, frozen=True):
    """What the metrics ask for, and what the autoscaler's spec allows.

    `current` is the number of replicas in the spec of the scale.
    """

    current: int
    desired: int
    minimum: int
    maximum: int
    behavior: HorizontalPodAutoscalerBehavior | None = None


class Verdict(Struct, frozen=True):
    """One condition: its status, its reason and its message."""

    status: str
    reason: str
    message: str


class Normalized(Struct, frozen=True):
    """What the scale is set to, the two conditions, and what is remembered."""

    replicas: int
    able_to_scale: Verdict
    scaling_limited: Verdict
    history: History


def normalized(
    wish: Wish, history: History, now: datetime, downscale_stabilization: timedelta
) -> Normalized:
    """Return what the scale is set to.

    `downscale_stabilization` is how long a recommendation holds back a scaling down
    where the behavior says nothing about it. The result lies between minimum and
    maximum if the current number does.

    Upstream: normalizeDesiredReplicas and normalizeDesiredReplicasWithBehaviors in
    pkg/controller/podautoscaler/horizontal.go.
    """
    if wish.behavior is None:
        stable = stabilized(history, wish.desired, now, downscale_stabilization)
        window = downscale_stabilization
        result = limited(wish.current, stable, wish.minimum, wish.maximum)
    else:
        seconds = int(downscale_stabilization.total_seconds())
        rules = complete_rules(wish.behavior, seconds)
        stable = stabilized_by_rules(history, wish.current, wish.desired, now, rules)
        window = rules.longest_window
        bounds = wish.minimum, wish.maximum
        result = limited_by_rate(wish.current, stable, bounds, rules, history, now)
    return Normalized(
        result.replicas,
        stabilization_verdict(
            wish.current, wish.desired, stable, by_rules=wish.behavior is not None
        ),
        limit_verdict(stable, result),
        recommended(history, wish.desired, now, window),
    )


def stabilization_verdict(
    current: int, desired: int, stable: int, *, by_rules: bool
) -> Verdict:
    """Return the condition AbleToScale: whether recommendations held the change back.

    `by_rules` tells that there is a behavior, which may hold back a scaling up too.
    """
    if stable == desired:
        message = "recommended size matches current size"
        return Verdict(_TRUE, "ReadyForNewScale", message)
    if by_rules and desired >= current:
        message = (
            "recent recommendations were lower than current one, "
            "applying the lowest recent recommendation"
        )
        return Verdict(_TRUE, "ScaleUpStabilized", message)
    message = (
        "recent recommendations were higher than current one, "
        "applying the highest recent recommendation"
    )
    return Verdict(_TRUE, "ScaleDownStabilized", message)


def limit_verdict(stable: int, result: Limited) -> Verdict:
    """Return the condition ScalingLimited: whether a limit changed the number."""
    status = _FALSE if result.replicas == stable else _TRUE
    return Verdict(status, result.reason, result.message)
