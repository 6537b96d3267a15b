"""The stabilization window: recent recommendations hold back a change of scale.

The changes of scale that the policies of a behavior count are kept beside them.
"""

from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace


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
    """Return the history, with a first recommendation if it has none.

    The number of replicas that a new manager finds counts as recommended: so a restart
    does not shorten the stabilization.

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
    keep: timedelta,
) -> History:
    """Return the history with a change of scale.

    Changes older than `keep` are dropped: that is the longest period of a policy. The
    policies of one direction count the changes of both.

    Upstream: storeScaleEvent in pkg/controller/podautoscaler/horizontal.go.
    """
    oldest = now - keep
    ups = tuple(each for each in history.scale_ups if each.at >= oldest)
    downs = tuple(each for each in history.scale_downs if each.at >= oldest)
    if after > before:
        ups = (*ups, ScaleEvent(after - before, now))
    elif after < before:
        downs = (*downs, ScaleEvent(before - after, now))
    return replace(history, scale_ups=ups, scale_downs=downs)


def stabilized(history: History, desired: int, now: datetime, window: timedelta) -> int:
    """Return the highest recommendation of the window.

    Upstream: stabilizeRecommendation in pkg/controller/podautoscaler/horizontal.go.
    """
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

    `windows` are the stabilization windows for scaling up and for scaling down. There
    are more replicas only if all recommendations of the first window ask for more, and
    fewer only if all recommendations of the second window ask for fewer.

    Upstream: stabilizeRecommendationWithBehaviors in
    pkg/controller/podautoscaler/horizontal.go.
    """
    up_begin, down_begin = (now - each for each in windows)
    recent = history.recommendations
    lowest = min((desired, *(each.replicas for each in recent if each.at > up_begin)))
    highest = max(
        (desired, *(each.replicas for each in recent if each.at > down_begin))
    )
    return min(max(current, lowest), highest)
