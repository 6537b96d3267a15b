"""A behavior limits scaling over time: upstream's end-to-end tests, in virtual time.

Upstream: test/e2e/autoscaling/horizontal_pod_autoscaling_behavior.go and
test/integration/podautoscaler.

"""

import asyncio
from datetime import datetime, timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from controller_manager.api.autoscaling.v2 import (
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus,
    MetricStatus,
)
from controller_manager.api.json_objects import JSON
from controller_manager.clock import Clock
from controller_manager.controllers.autoscaling.podautoscaler.behavior import (
    History,
    complete_rules,
    normalized,
    scaled,
    started,
)
from controller_manager.controllers.autoscaling.podautoscaler.status import (
    ABLE_TO_SCALE,
    FALSE,
    SCALED_TO_ZERO,
    SCALING_ACTIVE,
    TRUE,
    Draft,
)
from tests.clusters import EPOCH
from tests.controllers.autoscaling.podautoscaler.on_cluster import (
    SYNC_PERIOD,
    Stage,
    config_of,
    external,
    observe,
    ready,
    set_queue_length,
)
from tests.controllers.autoscaling.podautoscaler.strategies import (
    NOW,
    behaviors,
    unhurried,
)


def windows(up: int, down: int) -> JSON:
    """Return a behavior with stabilization windows, in seconds."""
    return {
        "scaleUp": {"stabilizationWindowSeconds": up},
        "scaleDown": {"stabilizationWindowSeconds": down},
    }


def policy(kind: str, value: int, seconds: int) -> JSON:
    return {"policies": [{"type": kind, "value": value, "periodSeconds": seconds}]}


NO_WINDOW: Final = {"stabilizationWindowSeconds": 0}


class Case(Struct, frozen=True):
    """A behavior, the replicas at the start, and the lengths of the queue over time.

    The queue asks for as many replicas as it is long; a step is a length and a number
    of syncs. `expected` has the replicas after each sync.
    """

    name: str
    behavior: JSON
    start: int
    steps: tuple[tuple[int, int], ...]
    expected: tuple[int, ...]
    bounds: tuple[int, int] = (1, 10)


CASES: Final = (
    Case(
        "scales down soon after the window",
        windows(0, 60),
        1,
        ((3, 2), (2, 6)),
        (3, 3, 3, 3, 3, 2, 2, 2),
    ),
    Case(
        "scales up only after the window",
        windows(60, 0),
        2,
        ((1, 2), (3, 6)),
        (1, 1, 1, 1, 1, 3, 3, 3),
    ),
    Case(
        "does not scale up",
        {"scaleUp": {"selectPolicy": "Disabled"}},
        1,
        ((8, 6),),
        (1, 1, 1, 1, 1, 1),
    ),
    Case(
        "does not scale down",
        {"scaleDown": {"selectPolicy": "Disabled"}},
        3,
        ((1, 24),),
        (3,) * 24,
    ),
    Case(
        "scales up by a number of pods in a minute",
        {"scaleUp": policy("Pods", 1, 60)},
        1,
        ((3, 6),),
        (2, 2, 2, 2, 3, 3),
    ),
    Case(
        "scales down by a number of pods in a minute",
        {"scaleDown": {**NO_WINDOW, **policy("Pods", 1, 60)}},
        3,
        ((1, 6),),
        (2, 2, 2, 2, 1, 1),
    ),
    Case(
        "scales up by a part of the pods in a minute, rounded up",
        {"scaleUp": policy("Percent", 50, 60)},
        2,
        ((8, 10),),
        (3, 3, 3, 3, 5, 5, 5, 5, 8, 8),
    ),
    Case(
        "scales down by a part of the pods in a minute, rounded up",
        {"scaleDown": {**NO_WINDOW, **policy("Percent", 25, 60)}},
        7,
        ((1, 10),),
        (5, 5, 5, 5, 3, 3, 3, 3, 2, 2),
    ),
    Case(
        "keeps the number over both windows",
        windows(60, 60),
        1,
        ((3, 6), (2, 6)),
        (1, 1, 1, 1, 3, 3, 3, 3, 3, 2, 2, 2),
    ),
    Case(
        "has a rate upwards and a window downwards",
        {
            "scaleUp": policy("Pods", 1, 60),
            "scaleDown": {"stabilizationWindowSeconds": 90},
        },
        2,
        ((4, 6), (2, 8)),
        (3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 2, 2, 2),
        bounds=(2, 5),
    ),
    Case(
        "has tolerances of its own",
        {
            "scaleUp": {"tolerance": "0.05"},
            "scaleDown": {**NO_WINDOW, "tolerance": "0.5"},
        },
        35,
        ((37, 2), (38, 2), (10, 2), (8, 2)),
        (37, 37, 37, 37, 10, 10, 10, 10),
        bounds=(1, 1000),
    ),
)


@pytest.mark.looptime
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_a_behavior_does_what_upstreams_end_to_end_tests_expect(
    case: Case,
) -> None:
    """Sync by sync."""
    stage = Stage()
    stage.add_target(case.start)
    stage.add_pods(ready("0"))
    more = {"behavior": case.behavior}
    stage.add_autoscaler([external(averageValue="1")], *case.bounds, more)
    set_queue_length(stage, case.steps[0][0])
    found = []
    async with stage.cluster.manager(config_of()):
        await asyncio.sleep(1)
        for length, syncs in case.steps:
            set_queue_length(stage, length)
            for _ in range(syncs):
                await asyncio.sleep(SYNC_PERIOD)
                observe(stage)
                found.append(stage.replicas())
    assert tuple(found) == case.expected


class Jumping:
    """A clock whose time of day jumps."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead = timedelta()

    def now(self) -> datetime:
        return self._clock.now() + self.ahead

    def monotonic(self) -> float:
        return self._clock.monotonic()


@pytest.mark.looptime
@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_clock_that_jumps_ends_no_window(hours: int) -> None:
    """As upstream, whose times have a monotonic reading."""
    stage = Stage()
    clock = Jumping(stage.cluster.clock)
    stage.cluster.clock = clock
    stage.add_target(5)
    stage.add_pods(ready("0"))
    stage.add_autoscaler([external(averageValue="1")])
    set_queue_length(stage, 1)
    found = []
    async with stage.cluster.manager(config_of(stabilization=60)):
        await asyncio.sleep(SYNC_PERIOD + 1)
        clock.ahead += timedelta(hours=hours)
        for _ in range(5):
            await asyncio.sleep(SYNC_PERIOD)
            found.append(stage.replicas())
    assert found == [5, 5, 5, 1, 1]


WINDOW = timedelta(seconds=300)

maybe_behaviors = st.none() | behaviors


def spec_of(
    minimum: int, maximum: int, behavior: HorizontalPodAutoscalerBehavior | None
) -> HorizontalPodAutoscalerSpec:
    return HorizontalPodAutoscalerSpec(
        min_replicas=minimum, max_replicas=maximum, behavior=behavior
    )


class Step(Struct, frozen=True):
    """One sync: the seconds since the last sync, and the new recommendation."""

    seconds: int
    desired: int


pauses = st.sampled_from((1, 7, 15, 29, 40))
wishes = st.sampled_from((0, 200, 200)) | st.integers(0, 200)
steps = st.lists(st.builds(Step, pauses, wishes), min_size=1, max_size=25)


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


BEFORE = "2019-01-01T00:00:00Z"
THEN = EPOCH + timedelta(seconds=1.7)


def condition(
    kind: str, status: str, since: str, reason: str = "r", message: str = "m"
) -> HorizontalPodAutoscalerCondition:
    return HorizontalPodAutoscalerCondition(
        type=kind,
        status=status,
        last_transition_time=since,
        reason=reason,
        message=message,
    )


STATUS = HorizontalPodAutoscalerStatus(
    observed_generation=3,
    last_scale_time=BEFORE,
    current_replicas=2,
    desired_replicas=4,
    current_metrics=(MetricStatus(type="Resource"),),
    conditions=(
        condition(ABLE_TO_SCALE, TRUE, BEFORE),
        condition(SCALED_TO_ZERO, TRUE, BEFORE),
    ),
)


def draft() -> Draft:
    return Draft(HorizontalPodAutoscaler(status=STATUS), THEN)


def test_the_time_of_a_condition_changes_only_with_its_status() -> None:
    """Reason and message always change; a new condition comes last."""
    drafted = draft()
    drafted.set(ABLE_TO_SCALE, TRUE, "other", "text")
    drafted.set(SCALED_TO_ZERO, FALSE, "other", "text")
    drafted.set(SCALING_ACTIVE, FALSE, "other", "text")
    second = (EPOCH + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert drafted.status().conditions == (
        condition(ABLE_TO_SCALE, TRUE, BEFORE, "other", "text"),
        condition(SCALED_TO_ZERO, FALSE, second, "other", "text"),
        condition(SCALING_ACTIVE, FALSE, second, "other", "text"),
    )
    assert [drafted.is_true(each) for each in (ABLE_TO_SCALE, SCALED_TO_ZERO)] == [
        True,
        False,
    ]


def test_a_target_that_cannot_be_read_changes_only_conditions() -> None:
    """Numbers and metrics stay, and so does the observed generation."""
    drafted = draft()
    drafted.remove(SCALED_TO_ZERO)
    drafted.remove(SCALING_ACTIVE)
    expected = condition(ABLE_TO_SCALE, TRUE, BEFORE)
    status = drafted.status()
    assert (status.conditions, status.current_replicas) == ((expected,), 2)
    assert (status.observed_generation, status.desired_replicas) == (3, 4)


def test_measured_metrics_leave_the_desired_number() -> None:
    """The status has no observed generation, as upstream's."""
    drafted = draft()
    drafted.measured(7, [MetricStatus()])
    assert drafted.status() == HorizontalPodAutoscalerStatus(
        last_scale_time=BEFORE,
        current_replicas=7,
        desired_replicas=4,
        current_metrics=(MetricStatus(),),
        conditions=STATUS.conditions,
    )


def test_only_a_change_of_scale_sets_its_time() -> None:
    """The time has whole seconds."""
    drafted = draft()
    drafted.decided(7, 7, [])
    assert drafted.status().last_scale_time == BEFORE
    drafted.decided(7, 9, [], rescaled=True)
    second = (EPOCH + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert drafted.status() == HorizontalPodAutoscalerStatus(
        last_scale_time=second,
        current_replicas=7,
        desired_replicas=9,
        conditions=STATUS.conditions,
    )
