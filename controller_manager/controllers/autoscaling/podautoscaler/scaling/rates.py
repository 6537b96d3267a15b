"""How fast a behavior lets the number of replicas change."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from controller_manager.api.autoscaling.v2 import HPAScalingPolicy, HPAScalingRules
from controller_manager.controllers.autoscaling.podautoscaler.replicas.amounts import (
    rounded_up,
)
from controller_manager.controllers.autoscaling.podautoscaler.scaling.history import (
    History,
    ScaleEvent,
)
from controller_manager.controllers.autoscaling.podautoscaler.scaling.limits import (
    Limited,
    too_fast_down,
    too_fast_up,
    too_few,
    too_many,
    within_range,
)
from controller_manager.controllers.autoscaling.podautoscaler.scaling.rules import (
    DISABLED,
    MIN,
    PERCENT,
    ScalingRules,
)


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
        rounded_up(start * (1 + policy.value / 100))
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
