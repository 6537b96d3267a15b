"""One sync does the writes that upstream's unit tests expect, in memory."""

import asyncio
from typing import Final

import pytest

from tests.controllers.autoscaling.podautoscaler.case import (
    Case,
)
from tests.controllers.autoscaling.podautoscaler.limit_cases import (
    EDGES,
    LIMITS,
    OWN_TOLERANCE,
    SURGE,
    WITHIN_TOLERANCE,
    ZERO,
)
from tests.controllers.autoscaling.podautoscaler.on_cluster import (
    SYNC_PERIOD,
    Stage,
    config_of,
)
from tests.controllers.autoscaling.podautoscaler.usage_cases import (
    SCALE_DOWN,
    SCALE_UP,
)

pytestmark = pytest.mark.looptime

SCALED_TO_ZERO: Final = {
    "type": "ScaledToZero",
    "status": "True",
    "reason": "ScaledToZero",
    "message": "the HPA controller scaled the workload to zero",
}


CASES: Final = {
    f"{group}: {case.name}": case
    for group, cases in {
        "scaling up": SCALE_UP,
        "scaling down": SCALE_DOWN,
        "within the tolerance": WITHIN_TOLERANCE,
        "other pods than replicas": SURGE,
        "a tolerance of its own": OWN_TOLERANCE,
        "limits": LIMITS,
        "zero": ZERO,
        "edges": EDGES,
    }.items()
    for case in cases
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_one_sync_does_what_upstreams_unit_test_expects(case: Case) -> None:
    """The scale, the status with its conditions, and the reasons of the events."""
    stage = Stage(case.gates)
    stage.add_target(case.replicas, case.observed)
    stage.add_pods(case.pods)
    stage.set_metrics(**case.answers)
    minimum, maximum = case.bounds
    more = {"behavior": case.behavior} if case.behavior else None
    stage.add_autoscaler(list(case.metrics), minimum, maximum, more)
    if case.was_scaled_to_zero:
        stage.set_conditions(SCALED_TO_ZERO)
    config = config_of(case.gates, case.stabilization)
    async with stage.cluster.manager(config) as recording:
        await asyncio.sleep(SYNC_PERIOD + 1)
    status = stage.status()
    scaled = case.replicas != case.expected
    assert stage.replicas() == case.expected
    assert stage.conditions() == case.conditions
    assert status.get("currentReplicas", 0) == case.replicas
    rescaled = [each for each in stage.events() if " SuccessfulRescale: " in each]
    assert len(rescaled) == scaled
    scales = [each.method for each in recording.writes if "/scale" in each.path]
    assert scales == ["PUT"] * scaled
