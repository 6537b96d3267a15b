"""What an autoscaler remembers: its recommendations and its changes of scale."""

from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.autoscaling.v2 import HorizontalPodAutoscalerBehavior
from controller_manager.controllers.autoscaling.podautoscaler.scaling.rules import (
    complete_rules,
)


class Recommendation(Struct, frozen=True):
    """How many replicas the metrics asked for at one time."""

    replicas: int
    at: datetime


class ScaleEvent(Struct, frozen=True):
    """By how many replicas the scale was changed at one time; never negative."""

    change: int
    at: datetime


class History(Struct, frozen=True):
    """What one autoscaler has recommended and changed, as far as it still counts."""

    recommendations: tuple[Recommendation, ...] = ()
    scale_ups: tuple[ScaleEvent, ...] = ()
    scale_downs: tuple[ScaleEvent, ...] = ()


def started(history: History, replicas: int, now: datetime) -> History:
    """Return a history that has a recommendation.

    The number of replicas that a manager finds counts as recommended, so that a
    restart does not forget why there are so many.

    Upstream: recordInitialRecommendation in pkg/controller/podautoscaler/horizontal.go.
    """
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
    history: History,
    before: int,
    after: int,
    now: datetime,
    behavior: HorizontalPodAutoscalerBehavior | None,
) -> History:
    """Return the history with a change of scale.

    A change is kept as long as a policy may count it: the policies of one direction
    count the changes of both. Without a behavior there are no policies, and the
    change is not counted.

    Upstream: storeScaleEvent in pkg/controller/podautoscaler/horizontal.go.
    """
    if behavior is None:
        return history
    oldest = now - complete_rules(behavior).longest_period
    ups = tuple(each for each in history.scale_ups if each.at >= oldest)
    downs = tuple(each for each in history.scale_downs if each.at >= oldest)
    if after > before:
        ups = (*ups, ScaleEvent(after - before, now))
    elif after < before:
        downs = (*downs, ScaleEvent(before - after, now))
    return replace(history, scale_ups=ups, scale_downs=downs)
