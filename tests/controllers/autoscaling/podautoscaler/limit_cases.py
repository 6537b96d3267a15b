"""Tolerances, limits, zero replicas, and metrics that are missing.

The rows are those of pkg/controller/podautoscaler/horizontal_test.go.
"""

from typing import Final

from tests.controllers.autoscaling.podautoscaler.case import (
    FINE,
    FIVE,
    SEVEN_TIMES_MORE,
    STAYS,
    THREE,
    Case,
    failed,
    limited,
    object_has,
    outside_is,
    pods_use,
)
from tests.controllers.autoscaling.podautoscaler.on_cluster import (
    PodOf,
    cpu,
    external,
    of_object,
    of_pods,
    ready,
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
        answers=pods_use(20, 20, 21),
        conditions=STAYS,
    ),
    Case(
        "an object",
        3,
        3,
        (of_object(value="20"),),
        THREE,
        answers=object_has("20050m"),
        conditions=STAYS,
    ),
    Case(
        "an object for each pod",
        3,
        3,
        (of_object(averageValue="20"),),
        THREE,
        answers=object_has("62"),
        conditions=STAYS,
    ),
    Case(
        "an external value",
        4,
        4,
        (external(value="8666m"),),
        (*THREE, *THREE[:1]),
        answers=outside_is("8600m"),
        conditions=STAYS,
    ),
    Case(
        "an external value for each pod",
        4,
        4,
        (external(averageValue="2200m"),),
        answers=outside_is("8600m"),
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

AVERAGES: Final = {"an external value": external, "an object": of_object}
ANSWERS: Final = {"an external value": outside_is, "an object": object_has}


def _surge(
    kind: str, name: str, replicas: int, observed: int, load: str, expected: int
) -> Case:
    """Return a target with another number of pods than it has replicas.

    Its metric should be 10 for each pod.
    """
    return Case(
        f"{kind}: {name}",
        replicas,
        expected,
        (AVERAGES[kind](averageValue="10"),),
        bounds=(2, 20),
        answers=ANSWERS[kind](load),
        observed=observed,
        conditions=STAYS if replicas == expected else FINE,
        stabilization=0,
    )


SURGE: Final = (
    *(
        _surge(kind, name, replicas, observed, load, expected)
        for kind in AVERAGES
        for name, replicas, observed, load, expected in (
            ("one pod more", 10, 11, "100", 10),
            ("a large surge, the load is not exactly the target", 10, 13, "105", 10),
            ("pods that terminate", 5, 10, "50", 5),
            ("pods that terminate, the load is that of all", 5, 10, "100", 10),
            ("fewer pods, within the tolerance", 11, 10, "100", 11),
            ("fewer pods, too many replicas", 20, 10, "100", 10),
            ("no pods yet", 10, 0, "105", 10),
            ("the load asks for as many as there are", 10, 12, "120", 12),
            ("the load asks for more", 10, 11, "150", 15),
            ("the load asks for fewer", 10, 11, "70", 7),
        )
    ),
    Case(
        "the surge is above the maximum",
        6,
        6,
        (external(averageValue="10"),),
        answers=outside_is("60"),
        observed=7,
        conditions=STAYS,
    ),
    Case(
        "the surge is above the minimum, the load is below it",
        2,
        2,
        (external(averageValue="10"),),
        answers=outside_is("1"),
        observed=3,
        conditions={**STAYS, "ScalingLimited": ("True", "TooFewReplicas")},
        stabilization=0,
    ),
    Case(
        "another metric asks for more",
        3,
        5,
        (external(averageValue="10"), cpu(30)),
        THREE,
        answers=outside_is("30"),
        observed=4,
    ),
    Case(
        "another metric asks for fewer",
        5,
        5,
        (cpu(50), external(averageValue="10")),
        FIVE,
        answers=outside_is("50"),
        observed=6,
        conditions=STAYS,
        stabilization=0,
    ),
)
"""Upstream writes the number of pods into the target's spec in most of these cases."""

OWN_TOLERANCE: Final = (
    Case(
        "1 per cent upwards",
        3,
        4,
        (cpu(100),),
        WITHIN_TOLERANCE[0].pods,
        behavior={"scaleUp": {"tolerance": "0.01"}},
    ),
    Case(
        "90 per cent downwards",
        3,
        3,
        (cpu(100),),
        ready("300m", "300m", "300m"),
        behavior={"scaleDown": {"tolerance": "0.9"}},
        conditions=STAYS,
    ),
    Case(
        "the gate is off",
        3,
        3,
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
        3,
        2,
        (cpu(90),),
        (*ready("10m", request="900m"), *ready("95m"), *ready("10m", request="1100m")),
        bounds=(2, 5),
        conditions=limited("TooFewReplicas"),
        stabilization=0,
    ),
    Case(
        "down to the minimum, nothing is used",
        3,
        2,
        (cpu(90),),
        ready("0", "0", "0"),
        bounds=(2, 5),
        conditions=limited("TooFewReplicas"),
        stabilization=0,
    ),
    Case(
        "up to the maximum",
        3,
        5,
        (cpu(90),),
        ready("8", "9500m", "1"),
        bounds=(2, 5),
        conditions=limited("TooManyReplicas"),
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
        3,
        24,
        (cpu(10),),
        ready("100m", "200m", "300m", request="100m"),
        bounds=(1, 100),
        behavior=SEVEN_TIMES_MORE,
        conditions=limited("ScaleUpLimit"),
    ),
    Case(
        "the maximum is below what a policy allows",
        3,
        20,
        (cpu(10),),
        ready("100m", "200m", "300m", request="100m"),
        bounds=(1, 20),
        behavior=SEVEN_TIMES_MORE,
        conditions=limited("TooManyReplicas"),
    ),
)

TO_ZERO: Final = {"HPAScaleToZero": True}
NOT_AT_ZERO: Final = {"ScaledToZero": ("False", "NotScaledToZero"), **FINE}

ZERO: Final = (
    Case(
        "from zero",
        0,
        2,
        (of_object(value="15"),),
        bounds=(0, 6),
        answers=object_has("20"),
        conditions=NOT_AT_ZERO,
        gates=TO_ZERO,
        was_scaled_to_zero=True,
    ),
    Case(
        "from zero without a tolerance",
        0,
        1,
        (of_object(value="1"),),
        bounds=(0, 6),
        answers=object_has("1"),
        conditions=NOT_AT_ZERO,
        gates=TO_ZERO,
        was_scaled_to_zero=True,
    ),
    Case(
        "a user has scaled it to zero",
        0,
        0,
        (of_object(value="15"),),
        bounds=(0, 6),
        answers=object_has("20"),
        conditions=failed("ScalingDisabled"),
        gates=TO_ZERO,
    ),
    Case(
        "to zero",
        3,
        0,
        (of_object(value="15"),),
        THREE,
        bounds=(0, 6),
        answers=object_has("0"),
        conditions={**FINE, "ScaledToZero": ("True", "ScaledToZero")},
        gates=TO_ZERO,
        stabilization=0,
    ),
)

WHOLE: Final = (PodOf(cpu="500m", request="1", whole="2"),) * 3

EDGES: Final = (
    Case(
        "the pods request something as a whole",
        3,
        2,
        (cpu(50),),
        WHOLE,
        stabilization=0,
    ),
    Case(
        "the gate of pods as a whole is off",
        3,
        3,
        (cpu(50),),
        WHOLE,
        gates={
            "PodLevelResources": False,
            "InPlacePodLevelResourcesVerticalScaling": False,
        },
        conditions=STAYS,
    ),
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
        3,
        5,
        (of_pods("15"), cpu(30)),
        THREE,
    ),
    Case(
        "one metric fails, the other asks for fewer",
        5,
        5,
        (of_pods("15"), cpu(50)),
        FIVE,
        conditions=failed("FailedGetPodsMetric"),
        stabilization=0,
    ),
    Case(
        "the metric that asks for most decides",
        3,
        5,
        (cpu(30), of_pods("15")),
        THREE,
        answers=pods_use(20, 10, 30),
    ),
)
