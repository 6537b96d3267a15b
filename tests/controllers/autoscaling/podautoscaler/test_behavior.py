"""A behavior limits scaling over time: upstream's end-to-end tests, in virtual time.

Upstream: test/e2e/autoscaling/horizontal_pod_autoscaling_behavior.go and
test/integration/podautoscaler.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Final

import msgspec
import pytest

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


def windows(up: int, down: int) -> JSON:
    """Return a behavior with stabilization windows, in seconds."""
    return {
        "scaleUp": {"stabilizationWindowSeconds": up},
        "scaleDown": {"stabilizationWindowSeconds": down},
    }


def policy(kind: str, value: int, seconds: int) -> JSON:
    return {"policies": [{"type": kind, "value": value, "periodSeconds": seconds}]}


AT_ONCE: Final = {"stabilizationWindowSeconds": 0}
ONE_A_MINUTE: Final = policy("Pods", 1, 60)
HALF: Final = {"tolerance": "0.5"}


def percent(value: int) -> JSON:
    return policy("Percent", value, 60)


Steps = list[tuple[int, int]]


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("behavior", "start", "steps", "expected"),
    [
        # Scales down soon after the window; up only after the window; in between.
        (windows(0, 60), 1, [(3, 2), (2, 6)], [3, 3, 3, 3, 3, 2, 2, 2]),
        (windows(60, 0), 2, [(1, 2), (3, 6)], [1, 1, 1, 1, 1, 3, 3, 3]),
        (windows(60, 60), 1, [(3, 6), (2, 6)], [1] * 4 + [3] * 5 + [2] * 3),
        # Does not scale up, or down.
        ({"scaleUp": {"selectPolicy": "Disabled"}}, 1, [(8, 6)], [1] * 6),
        ({"scaleDown": {"selectPolicy": "Disabled"}}, 3, [(1, 24)], [3] * 24),
        # By a number of pods in a minute.
        ({"scaleUp": ONE_A_MINUTE}, 1, [(3, 6)], [2, 2, 2, 2, 3, 3]),
        ({"scaleDown": {**AT_ONCE, **ONE_A_MINUTE}}, 3, [(1, 6)], [2, 2, 2, 2, 1, 1]),
        # By a part of the pods in a minute, rounded up.
        ({"scaleUp": percent(50)}, 2, [(8, 10)], [3] * 4 + [5] * 4 + [8] * 2),
        (
            {"scaleDown": {**AT_ONCE, **percent(25)}},
            7,
            [(1, 10)],
            [5] * 4 + [3] * 4 + [2] * 2,
        ),
        # Has a rate upwards and a window downwards.
        (
            {"scaleUp": ONE_A_MINUTE, "scaleDown": windows(0, 90)["scaleDown"]},
            2,
            [(4, 6), (2, 8)],
            [3] * 4 + [4] * 7 + [2] * 3,
        ),
        # Has tolerances of its own.
        (
            {"scaleUp": {"tolerance": "0.05"}, "scaleDown": {**AT_ONCE, **HALF}},
            35,
            [(37, 2), (38, 2), (10, 2), (8, 2)],
            [37] * 4 + [10] * 4,
        ),
    ],
)
async def test_a_behavior_does_what_upstreams_end_to_end_tests_expect(
    behavior: JSON, start: int, steps: Steps, expected: list[int]
) -> None:
    """Sync by sync.

    The queue asks for as many replicas as it is long; a step is a length and a number
    of syncs.
    """
    stage = Stage()
    stage.add_target(start)
    stage.add_pods(ready("0"))
    more = {"behavior": behavior}
    stage.add_autoscaler([external(averageValue="1")], 1, 1000, more)
    set_queue_length(stage, steps[0][0])
    found = []
    async with stage.cluster.manager(config_of()):
        await asyncio.sleep(1)
        for length, syncs in steps:
            set_queue_length(stage, length)
            for _ in range(syncs):
                await asyncio.sleep(SYNC_PERIOD)
                observe(stage)
                found.append(stage.replicas())
    assert found == expected


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


@pytest.mark.parametrize(
    ("behavior", "window", "period"),
    [
        (None, 300, 0),
        ({"scaleUp": policy("Pods", 1, 30)}, 300, 30),
        (windows(600, 0) | {"scaleDown": policy("Pods", 4, 120)}, 600, 120),
        (windows(600, 900), 900, 60),
    ],
)
def test_history_has_an_end(behavior: JSON | None, window: int, period: int) -> None:
    """Nothing older than the longest window, or the longest period, is kept."""
    found = msgspec.convert(behavior, HorizontalPodAutoscalerBehavior | None)
    spec = HorizontalPodAutoscalerSpec(min_replicas=1, max_replicas=60, behavior=found)
    history, now, current = History(), NOW, 10
    for number in range(300):
        now += timedelta(seconds=7)
        history = started(history, current, now)
        desired = 10 + number % 3 * 9
        result = normalized(spec, current, desired, history, now, WINDOW)
        history, wanted = result.history, result.limit.replicas
        if found is not None:
            keep = complete_rules(found).longest_period
            history = scaled(history, current, wanted, now, keep)
        current = wanted
    oldest = min(each.at for each in history.recommendations)
    assert now - timedelta(seconds=window) <= oldest
    changes = (*history.scale_ups, *history.scale_downs)
    assert all(each.at >= now - timedelta(seconds=period) for each in changes)


NOW = EPOCH + timedelta(hours=12)
WINDOW = timedelta(seconds=300)
BEFORE = "2019-01-01T00:00:00Z"
SECOND = "2026-01-01T00:00:01Z"
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
    assert drafted.status().conditions == (
        condition(ABLE_TO_SCALE, TRUE, BEFORE, "other", "text"),
        condition(SCALED_TO_ZERO, FALSE, SECOND, "other", "text"),
        condition(SCALING_ACTIVE, FALSE, SECOND, "other", "text"),
    )
    assert drafted.is_true(ABLE_TO_SCALE)
    assert not drafted.is_true(SCALED_TO_ZERO)


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
    drafted = draft()
    drafted.decided(7, 7, [])
    assert drafted.status().last_scale_time == BEFORE
    drafted.decided(7, 9, [], rescaled=True)
    assert drafted.status() == HorizontalPodAutoscalerStatus(
        last_scale_time=SECOND,
        current_replicas=7,
        desired_replicas=9,
        conditions=STATUS.conditions,
    )
