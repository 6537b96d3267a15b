"""A behavior limits scaling over time: upstream's end-to-end tests, in virtual time.

Upstream: test/e2e/autoscaling/horizontal_pod_autoscaling_behavior.go and
test/integration/podautoscaler.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Final

import pytest
from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.clock import Clock
from tests.controllers.autoscaling.podautoscaler.on_cluster import (
    SYNC_PERIOD,
    Stage,
    config_of,
    external,
    observe,
    ready,
    set_queue_length,
)

pytestmark = pytest.mark.looptime


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
