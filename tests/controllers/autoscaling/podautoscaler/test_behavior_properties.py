"""Properties of the new scale, for any recommendation, behavior and history."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from controller_manager.api.autoscaling.v2 import (
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerSpec,
    HPAScalingPolicy,
)
from controller_manager.controllers.autoscaling.podautoscaler.behavior import (
    PERCENT,
    History,
    complete_rules,
    normalized,
    scaled,
    started,
)
from tests.controllers.autoscaling.podautoscaler.strategies import (
    NOW,
    behaviors,
    histories,
    replicas,
    unhurried,
)

WINDOW = timedelta(seconds=300)

ranges = st.tuples(replicas, replicas).map(sorted)
maybe_behaviors = st.none() | behaviors


def spec_of(
    minimum: int, maximum: int, behavior: HorizontalPodAutoscalerBehavior | None
) -> HorizontalPodAutoscalerSpec:
    return HorizontalPodAutoscalerSpec(
        min_replicas=minimum, max_replicas=maximum, behavior=behavior
    )


@unhurried
@given(ranges, st.data(), maybe_behaviors, histories)
def test_the_number_never_leaves_the_range(
    limits: tuple[int, int],
    data: st.DataObject,
    behavior: HorizontalPodAutoscalerBehavior | None,
    history: History,
) -> None:
    """With any history, as long as the present number is in the range."""
    minimum, maximum = limits
    current = data.draw(st.integers(minimum, maximum))
    spec = spec_of(minimum, maximum, behavior)
    desired = data.draw(st.integers(0, 200))
    result = normalized(spec, current, desired, history, NOW, WINDOW)
    assert minimum <= result.limit.replicas <= maximum
    assert result.is_limited == (result.limit.reason != "DesiredWithinRange")


@unhurried
@given(ranges, st.data(), maybe_behaviors, histories)
def test_the_number_moves_only_towards_the_recommendation(
    limits: tuple[int, int],
    data: st.DataObject,
    behavior: HorizontalPodAutoscalerBehavior | None,
    history: History,
) -> None:
    """The number grows only with a higher recommendation, and falls with a lower."""
    minimum, maximum = limits
    current = data.draw(st.integers(minimum, maximum))
    desired = data.draw(replicas)
    spec = spec_of(minimum, maximum, behavior)
    result = normalized(spec, current, desired, history, NOW, WINDOW)
    wished = (desired, *(each.replicas for each in history.recommendations))
    if result.limit.replicas > current:
        assert max(wished) > current
    if result.limit.replicas < current:
        assert desired < current


class Step(Struct, frozen=True):
    """One sync: the seconds since the last sync, and the new recommendation."""

    seconds: int
    desired: int


pauses = st.sampled_from((1, 7, 15, 29, 40))
wishes = st.sampled_from((0, 200, 200)) | st.integers(0, 200)
steps = st.lists(st.builds(Step, pauses, wishes), min_size=1, max_size=25)


class Played(Struct, frozen=True):
    """The number of replicas from a time on."""

    at: datetime
    replicas: int


def play(
    behavior: HorizontalPodAutoscalerBehavior, first: int, syncs: Sequence[Step]
) -> list[Played]:
    """Return the numbers of replicas over some syncs; the first stood for ever."""
    now = NOW
    played = [Played(now - timedelta(days=1), first)]
    history = History()
    for step in syncs:
        now += timedelta(seconds=step.seconds)
        current = played[-1].replicas
        history = started(history, current, now)
        spec = spec_of(0, 200, behavior)
        result = normalized(spec, current, step.desired, history, now, WINDOW)
        history, wanted = result.history, result.limit.replicas
        if wanted != current:
            if behavior is not None:
                keep = complete_rules(behavior).longest_period
                history = scaled(history, current, wanted, now, keep)
            played.append(Played(now, wanted))
    return played


def number_at(played: Sequence[Played], instant: datetime) -> int:
    """Return the number at the end of an instant."""
    return next(each.replicas for each in reversed(played) if each.at <= instant)


def change_allowed(policy: HPAScalingPolicy, start: int) -> float:
    """Return the change that a policy allows within its period."""
    return start * policy.value / 100 if policy.type == PERCENT else policy.value


@unhurried
@given(behaviors, replicas, steps)
def test_no_policy_is_broken_over_any_time(
    behavior: HorizontalPodAutoscalerBehavior, first: int, syncs: list[Step]
) -> None:
    """The number at the start of a policy's period decides, not later changes."""
    rules = complete_rules(behavior, int(WINDOW.total_seconds()))
    played = play(behavior, first, syncs)
    for before, after in pairwise(played):
        rule = rules.up if after.replicas > before.replicas else rules.down
        assert rule.select_policy != "Disabled"
        allowed = []
        for policy in rule.policies or ():
            begin = after.at - timedelta(seconds=policy.period_seconds)
            start = number_at(played, begin)
            changed = abs(after.replicas - start)
            same_way = (after.replicas > start) == (rule is rules.up)
            # Rounded up, and 55 * (1 + 120 / 100) is a little more than 121 in Go, too.
            most = change_allowed(policy, start) + 1
            allowed.append(not same_way or changed <= most)
        judge = all if rule.select_policy == "Min" else any
        assert judge(allowed)


@unhurried
@given(behaviors, replicas, steps)
def test_the_scale_follows_the_recommendations_of_the_whole_window(
    behavior: HorizontalPodAutoscalerBehavior, first: int, syncs: list[Step]
) -> None:
    """A replica that a recommendation of the window asks for stays."""
    rules = complete_rules(behavior, int(WINDOW.total_seconds()))
    wished: list[Played] = []
    played = play(behavior, first, syncs)
    now = NOW
    for step in syncs:
        now += timedelta(seconds=step.seconds)
        if not wished:
            wished.append(Played(now, first))
        wished.append(Played(now, step.desired))
    for before, after in pairwise(played):
        down = after.replicas < before.replicas
        rule = rules.down if down else rules.up
        seconds = rule.stabilization_window_seconds or 0
        begin = after.at - timedelta(seconds=seconds)
        recent = [each.replicas for each in wished if begin < each.at <= after.at]
        if down:
            assert after.replicas >= max(recent, default=0)
        else:
            assert after.replicas <= min(recent, default=200)


@unhurried
@given(maybe_behaviors, st.integers(1, 40), st.integers(1, 30))
def test_the_history_has_an_end(
    behavior: HorizontalPodAutoscalerBehavior | None, seconds: int, desired: int
) -> None:
    """Nothing older than the longest window, or the longest period, is kept."""
    history = History()
    now, current = NOW, 10
    for number in range(80):
        now += timedelta(seconds=seconds)
        spec = spec_of(1, 60, behavior)
        history = started(history, current, now)
        result = normalized(spec, current, desired + number % 3, history, now, WINDOW)
        history, wanted = result.history, result.limit.replicas
        if behavior is not None:
            keep = complete_rules(behavior).longest_period
            history = scaled(history, current, wanted, now, keep)
        current = wanted
    rules = complete_rules(behavior, 300) if behavior else None
    window = max(rules.windows) if rules else WINDOW
    period = rules.longest_period if rules else timedelta()
    assert all(each.at >= now - window for each in history.recommendations)
    changes = (*history.scale_ups, *history.scale_downs)
    assert all(each.at >= now - period for each in changes)
