"""How recent recommendations hold back a change of scale."""

from datetime import datetime, timedelta

from controller_manager.controllers.autoscaling.podautoscaler.scaling.history import (
    History,
)
from controller_manager.controllers.autoscaling.podautoscaler.scaling.rules import (
    ScalingRules,
)


def stabilized(history: History, desired: int, now: datetime, window: timedelta) -> int:
    """Return the highest recommendation of the window.

    Upstream: stabilizeRecommendation in pkg/controller/podautoscaler/horizontal.go.
    """
    begin = now - window
    recent = (each.replicas for each in history.recommendations if each.at > begin)
    return max((desired, *recent))


def stabilized_by_rules(
    history: History, current: int, desired: int, now: datetime, rules: ScalingRules
) -> int:
    """Return the number nearest to `current` that recent recommendations agree on.

    There are more replicas only if all recommendations of the window for scaling up
    ask for more, and fewer only if all of the window for scaling down ask for fewer.

    Upstream: stabilizeRecommendationWithBehaviors in
    pkg/controller/podautoscaler/horizontal.go.
    """
    up_begin = now - timedelta(seconds=rules.up.stabilization_window_seconds or 0)
    down_begin = now - timedelta(seconds=rules.down.stabilization_window_seconds or 0)
    recent = history.recommendations
    lowest = min((desired, *(each.replicas for each in recent if each.at > up_begin)))
    highest = max(
        (desired, *(each.replicas for each in recent if each.at > down_begin))
    )
    return min(max(current, lowest), highest)
