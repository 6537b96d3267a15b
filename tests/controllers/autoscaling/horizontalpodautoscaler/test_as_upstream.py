"""What upstream's unit tests expect of one sync, on a cluster in memory.

The rows are those of pkg/controller/podautoscaler/horizontal_test.go: the numbers that
go in, and the number of replicas, the conditions and the events that come out.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import pytest
from msgspec import Struct

from tests.controllers.autoscaling.horizontalpodautoscaler.on_cluster import (
    SYNC_PERIOD,
    PodOf,
    Stage,
    config_of,
    container_cpu,
    cpu,
    external,
    of_object,
    of_pods,
    ready,
)

JSON = dict[str, Any]

pytestmark = pytest.mark.looptime

FINE: Final = {
    "AbleToScale": ("True", "SucceededRescale"),
    "ScalingActive": ("True", "ValidMetricFound"),
    "ScalingLimited": ("False", "DesiredWithinRange"),
}
"""The conditions after a change of scale that nothing limits."""

STAYS: Final = {**FINE, "AbleToScale": ("True", "ReadyForNewScale")}
"""The conditions if nothing is to change."""


def failed(reason: str) -> dict[str, tuple[str, str]]:
    """Return the conditions if the metrics say nothing."""
    return {
        "AbleToScale": ("True", "SucceededGetScale"),
        "ScalingActive": ("False", reason),
    }


SCALED_TO_ZERO: Final = {
    "type": "ScaledToZero",
    "status": "True",
    "reason": "ScaledToZero",
    "message": "the HPA controller scaled the workload to zero",
}


class Case(Struct, frozen=True):
    """A target with some replicas, pods and metrics, and what becomes of it."""

    name: str
    replicas: int
    expected: int
    metrics: tuple[JSON, ...]
    pods: tuple[PodOf, ...] = ()
    bounds: tuple[int, int] = (2, 6)
    conditions: Mapping[str, tuple[str, str]] = FINE
    answers: Mapping[str, Any] = {}
    observed: int | None = None
    gates: Mapping[str, bool] = {}
    stabilization: float = 300.0
    behavior: JSON | None = None
    was_scaled_to_zero: bool = False


THREE: Final = ready("300m", "500m", "700m")
UNREADY: Final = PodOf(cpu="500m", is_ready=False)
HOT: Final = PodOf(cpu="500m", age=0)

SCALE_UP: Final = (
    Case("up", 3, 5, (cpu(30),), THREE),
    Case(
        "up, unready pods count as idle",
        *(3, 4),
        (cpu(30),),
        (PodOf(cpu="300m", is_ready=False), *ready("500m", "700m")),
    ),
    Case(
        "up, hot pods count as idle",
        *(3, 4),
        (cpu(30),),
        (PodOf(cpu="300m", age=0), *ready("500m", "700m")),
    ),
    Case(
        "up, failed pods do not count",
        *(2, 4),
        (cpu(30),),
        (
            *ready("500m", "700m"),
            PodOf(is_ready=False, phase="Failed"),
            PodOf(is_ready=False, phase="Failed"),
        ),
    ),
    Case(
        "up, pods that are deleted do not count",
        *(2, 4),
        (cpu(30),),
        (
            *ready("500m", "700m"),
            PodOf(is_ready=False, is_deleting=True),
            PodOf(is_ready=False, is_deleting=True),
        ),
    ),
    Case(
        "unready pods bring the usage back to the target",
        *(3, 3),
        (cpu(30),),
        (*ready("400m"), UNREADY, UNREADY),
        conditions=STAYS,
    ),
    Case(
        "hot pods bring the usage back to the target",
        *(3, 3),
        (cpu(30),),
        (*ready("400m"), HOT, HOT),
        conditions=STAYS,
    ),
    Case(
        "one container of the pods",
        *(3, 5),
        (container_cpu(30, "c"),),
        THREE,
    ),
    Case(
        "a custom metric",
        3,
        4,
        (of_pods("15"),),
        THREE,
        answers={
            "pods": {
                "qps": {"test-pod-0": "20", "test-pod-1": "10", "test-pod-2": "30"}
            }
        },
    ),
    Case(
        "a custom metric of unready and hot pods counts in full",
        *(3, 6),
        (of_pods("15"),),
        (*ready("1", "1"), PodOf(is_ready=False, age=0)),
        answers={
            "pods": {
                "qps": {"test-pod-0": "50", "test-pod-1": "10", "test-pod-2": "30"}
            }
        },
    ),
    Case(
        "a custom metric asks for more than the maximum",
        *(3, 6),
        (of_pods("15"),),
        (PodOf(is_ready=False, age=0), *ready("1"), PodOf(is_ready=False, age=0)),
        conditions={**FINE, "ScalingLimited": ("True", "TooManyReplicas")},
        answers={
            "pods": {
                "qps": {"test-pod-0": "50", "test-pod-1": "15", "test-pod-2": "30"}
            }
        },
    ),
    Case(
        "an object's value",
        3,
        4,
        (of_object(value="15"),),
        THREE,
        answers={"objects": {"services/web": {"qps": "20"}}},
    ),
    Case(
        "an object's value for each pod",
        3,
        4,
        (of_object(averageValue="10"),),
        THREE,
        answers={"objects": {"services/web": {"qps": "40"}}},
    ),
    Case(
        "an external value",
        3,
        4,
        (external(value="6666m"),),
        THREE,
        answers={"external": {"qps": [{"value": "8600m"}]}},
    ),
    Case(
        "an external value for each pod",
        3,
        4,
        (external(averageValue="2222m"),),
        THREE,
        answers={"external": {"qps": [{"value": "8600m"}]}},
    ),
)

FIVE: Final = ready("100m", "300m", "500m", "250m", "250m")

SCALE_DOWN: Final = (
    Case("down", 5, 3, (cpu(50),), FIVE, stabilization=0),
    Case("down, one container", 5, 3, (container_cpu(50, "c"),), FIVE, stabilization=0),
    Case(
        "down, unready pods are left out",
        *(5, 2),
        (cpu(50),),
        (*FIVE[:3], *(PodOf(cpu="250m", is_ready=False),) * 2),
        stabilization=0,
    ),
    Case(
        "down, hot pods are left out",
        *(5, 2),
        (cpu(50),),
        (*FIVE[:3], *(PodOf(cpu="250m", age=0),) * 2),
        stabilization=0,
    ),
    Case(
        "down, failed pods do not count",
        *(5, 3),
        (cpu(50),),
        (*FIVE, *(PodOf(is_ready=False, phase="Failed"),) * 2),
        stabilization=0,
    ),
    Case(
        "down, pods that are deleted do not count",
        *(5, 3),
        (cpu(50),),
        (*FIVE, *(PodOf(is_ready=False, is_deleting=True),) * 2),
        stabilization=0,
    ),
    Case(
        "a custom metric, down",
        *(5, 3),
        (of_pods("20"),),
        FIVE,
        answers={"pods": {"qps": {f"test-pod-{at}": "12" for at in range(5)}}},
        stabilization=0,
    ),
    Case(
        "an object's value, down",
        5,
        3,
        (of_object(value="20"),),
        FIVE,
        answers={"objects": {"services/web": {"qps": "12"}}},
        stabilization=0,
    ),
    Case(
        "an object's value for each pod, down",
        5,
        3,
        (of_object(averageValue="20"),),
        FIVE,
        answers={"objects": {"services/web": {"qps": "60"}}},
        stabilization=0,
    ),
    Case(
        "an external value, down",
        5,
        3,
        (external(value="14400m"),),
        FIVE,
        answers={"external": {"qps": [{"value": "8600m"}]}},
        stabilization=0,
    ),
    Case(
        "an external value for each pod, down",
        5,
        3,
        (external(averageValue="3"),),
        FIVE,
        answers={"external": {"qps": [{"value": "8600m"}]}},
        stabilization=0,
    ),
    Case(
        "down, but the number that was found counts for five minutes",
        *(5, 5),
        (cpu(50),),
        FIVE,
        conditions={**STAYS, "AbleToScale": ("True", "ScaleDownStabilized")},
    ),
)

WITHIN_TOLERANCE: Final = (
    Case(
        "CPU",
        3,
        3,
        (cpu(100),),
        (
            *ready("1010m", request="900m"),
            *ready("1030m"),
            *ready("1020m", request="1100m"),
        ),
        conditions=STAYS,
    ),
    Case(
        "a custom metric",
        3,
        3,
        (of_pods("20"),),
        THREE,
        answers={
            "pods": {
                "qps": {"test-pod-0": "20", "test-pod-1": "20", "test-pod-2": "21"}
            }
        },
        conditions=STAYS,
    ),
    Case(
        "an object",
        3,
        3,
        (of_object(value="20"),),
        THREE,
        answers={"objects": {"services/web": {"qps": "20050m"}}},
        conditions=STAYS,
    ),
    Case(
        "an object for each pod",
        3,
        3,
        (of_object(averageValue="20"),),
        THREE,
        answers={"objects": {"services/web": {"qps": "62"}}},
        conditions=STAYS,
    ),
    Case(
        "an external value",
        4,
        4,
        (external(value="8666m"),),
        (*THREE, *THREE[:1]),
        answers={"external": {"qps": [{"value": "8600m"}]}},
        conditions=STAYS,
    ),
    Case(
        "an external value for each pod",
        4,
        4,
        (external(averageValue="2200m"),),
        answers={"external": {"qps": [{"value": "8600m"}]}},
        conditions=STAYS,
    ),
    Case(
        "more pods than replicas",
        4,
        4,
        (cpu(50),),
        ready(*["500m"] * 5),
        bounds=(1, 8),
        observed=5,
        conditions=STAYS,
    ),
)

OWN_TOLERANCE: Final = (
    Case(
        "1 per cent upwards",
        *(3, 4),
        (cpu(100),),
        WITHIN_TOLERANCE[0].pods,
        behavior={"scaleUp": {"tolerance": "0.01"}},
    ),
    Case(
        "90 per cent downwards",
        *(3, 3),
        (cpu(100),),
        ready("300m", "300m", "300m"),
        behavior={"scaleDown": {"tolerance": "0.9"}},
        conditions=STAYS,
    ),
    Case(
        "the gate is off",
        *(3, 3),
        (cpu(100),),
        WITHIN_TOLERANCE[0].pods,
        behavior={"scaleUp": {"tolerance": "0.01"}},
        gates={"HPAConfigurableTolerance": False},
        conditions=STAYS,
    ),
)

LIMITS: Final = (
    Case(
        "down to the minimum",
        *(3, 2),
        (cpu(90),),
        (*ready("10m", request="900m"), *ready("95m"), *ready("10m", request="1100m")),
        bounds=(2, 5),
        conditions={**FINE, "ScalingLimited": ("True", "TooFewReplicas")},
        stabilization=0,
    ),
    Case(
        "down to the minimum, nothing is used",
        *(3, 2),
        (cpu(90),),
        ready("0", "0", "0"),
        bounds=(2, 5),
        conditions={**FINE, "ScalingLimited": ("True", "TooFewReplicas")},
        stabilization=0,
    ),
    Case(
        "up to the maximum",
        *(3, 5),
        (cpu(90),),
        ready("8", "9500m", "1"),
        bounds=(2, 5),
        conditions={**FINE, "ScalingLimited": ("True", "TooManyReplicas")},
    ),
    Case(
        "a target at zero is left alone",
        0,
        0,
        (cpu(90),),
        bounds=(3, 5),
        conditions=failed("ScalingDisabled"),
    ),
    Case(
        "below the minimum",
        2,
        3,
        (cpu(90),),
        bounds=(3, 5),
        conditions={"AbleToScale": ("True", "SucceededRescale")},
    ),
    Case(
        "above the maximum",
        10,
        5,
        (cpu(90),),
        bounds=(3, 5),
        conditions={"AbleToScale": ("True", "SucceededRescale")},
    ),
    Case(
        "as fast as a policy allows",
        *(3, 24),
        (cpu(10),),
        ready("100m", "200m", "300m", request="100m"),
        bounds=(1, 100),
        behavior={
            "scaleUp": {
                "policies": [{"type": "Percent", "value": 700, "periodSeconds": 60}]
            }
        },
        conditions={**FINE, "ScalingLimited": ("True", "ScaleUpLimit")},
    ),
    Case(
        "the maximum is below what a policy allows",
        *(3, 20),
        (cpu(10),),
        ready("100m", "200m", "300m", request="100m"),
        bounds=(1, 20),
        behavior={
            "scaleUp": {
                "policies": [{"type": "Percent", "value": 700, "periodSeconds": 60}]
            }
        },
        conditions={**FINE, "ScalingLimited": ("True", "TooManyReplicas")},
    ),
)

TO_ZERO: Final = {"HPAScaleToZero": True}
NOT_AT_ZERO: Final = {"ScaledToZero": ("False", "NotScaledToZero"), **FINE}

ZERO: Final = (
    Case(
        "from zero",
        *(0, 2),
        (of_object(value="15"),),
        bounds=(0, 6),
        answers={"objects": {"services/web": {"qps": "20"}}},
        conditions=NOT_AT_ZERO,
        gates=TO_ZERO,
        was_scaled_to_zero=True,
    ),
    Case(
        "from zero without a tolerance",
        *(0, 1),
        (of_object(value="1"),),
        bounds=(0, 6),
        answers={"objects": {"services/web": {"qps": "1"}}},
        conditions=NOT_AT_ZERO,
        gates=TO_ZERO,
        was_scaled_to_zero=True,
    ),
    Case(
        "a user has scaled it to zero",
        *(0, 0),
        (of_object(value="15"),),
        bounds=(0, 6),
        answers={"objects": {"services/web": {"qps": "20"}}},
        conditions=failed("ScalingDisabled"),
        gates=TO_ZERO,
    ),
    Case(
        "to zero",
        *(3, 0),
        (of_object(value="15"),),
        THREE,
        bounds=(0, 6),
        answers={"objects": {"services/web": {"qps": "0"}}},
        conditions={**FINE, "ScaledToZero": ("True", "ScaledToZero")},
        gates=TO_ZERO,
        stabilization=0,
    ),
)

EDGES: Final = (
    Case(
        "some pods have no metrics",
        4,
        3,
        (cpu(100),),
        (*ready("400m", "95m"), PodOf(), PodOf()),
        stabilization=0,
    ),
    Case(
        "no pod has metrics",
        4,
        4,
        (cpu(100),),
        (PodOf(),) * 4,
        conditions=failed("FailedGetResourceMetric"),
    ),
    Case(
        "there is no request",
        1,
        1,
        (cpu(100),),
        (PodOf(cpu="200m", request=None),),
        bounds=(1, 5),
        conditions=failed("FailedGetResourceMetric"),
    ),
    Case(
        "the API of resource metrics fails",
        3,
        3,
        (cpu(10),),
        THREE,
        answers={"fail": 500},
        conditions=failed("FailedGetResourceMetric"),
    ),
    Case(
        "the API of custom metrics fails",
        3,
        3,
        (of_pods("15"),),
        THREE,
        answers={"fail": 500},
        conditions=failed("FailedGetPodsMetric"),
    ),
    Case(
        "the API of objects' metrics fails",
        3,
        3,
        (of_object(value="15"),),
        THREE,
        answers={"fail": 500},
        conditions=failed("FailedGetObjectMetric"),
    ),
    Case(
        "the API of external metrics fails",
        3,
        3,
        (external(value="300m"),),
        THREE,
        answers={"fail": 500},
        conditions=failed("FailedGetExternalMetric"),
    ),
    Case(
        "one metric fails, the other asks for more",
        *(3, 5),
        (of_pods("15"), cpu(30)),
        THREE,
    ),
    Case(
        "one metric fails, the other asks for fewer",
        *(5, 5),
        (of_pods("15"), cpu(50)),
        FIVE,
        conditions=failed("FailedGetPodsMetric"),
        stabilization=0,
    ),
    Case(
        "the metric that asks for most decides",
        *(3, 5),
        (cpu(30), of_pods("15")),
        THREE,
        answers={
            "pods": {
                "qps": {"test-pod-0": "20", "test-pod-1": "10", "test-pod-2": "30"}
            }
        },
    ),
)

CASES: Final = {
    f"{group}: {case.name}": case
    for group, cases in {
        "scaling up": SCALE_UP,
        "scaling down": SCALE_DOWN,
        "within the tolerance": WITHIN_TOLERANCE,
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
    behavior = {} if case.behavior is None else {"behavior": case.behavior}
    stage.add_autoscaler(list(case.metrics), minimum, maximum, **behavior)
    if case.was_scaled_to_zero:
        stage.set_conditions(SCALED_TO_ZERO)
    config = config_of(case.gates, case.stabilization)
    async with stage.cluster.manager(config) as recording:
        await asyncio.sleep(SYNC_PERIOD + 1)
    status = stage.status()
    scaled = case.replicas != case.expected
    assert stage.replicas() == case.expected
    assert stage.conditions() == case.conditions
    assert status["currentReplicas"] == case.replicas
    rescaled = [each for each in stage.events() if " SuccessfulRescale: " in each]
    assert len(rescaled) == scaled
    scales = [each.method for each in recording.writes if "/scale" in each.path]
    assert scales == ["PUT"] * scaled
