"""Deliberate bugs of the horizontal pod autoscaler controller."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from controller_manager.api.autoscaling.v2 import HorizontalPodAutoscalerSpec
from controller_manager.controllers.autoscaling.podautoscaler import plan
from controller_manager.controllers.autoscaling.podautoscaler.plan import (
    Start,
)
from controller_manager.controllers.autoscaling.podautoscaler.scaling import decide
from controller_manager.controllers.autoscaling.podautoscaler.scaling.history import (
    History,
)
from controller_manager.controllers.autoscaling.podautoscaler.scaling.limits import (
    Limited,
    within_range,
)
from controller_manager.controllers.autoscaling.podautoscaler.selection.overlap import (
    Overlaps,
)
from tests.simulation.planted import Bug


def _limit_nothing(current: int, desired: int, minimum: int, maximum: int) -> Limited:
    del current, minimum, maximum
    return within_range(desired)


def _remember_nothing(
    history: History, desired: int, now: datetime, window: timedelta
) -> int:
    del history, now, window
    return desired


def _always_measure(
    spec: HorizontalPodAutoscalerSpec, current: int, *, was_scaled_to_zero: bool
) -> Start:
    del was_scaled_to_zero
    if current < plan.minimum_of(spec):
        return Start(plan.minimum_of(spec), plan.BELOW_MINIMUM)
    return Start(current, needs_metrics=True)


BUGS: Final[Mapping[str, Bug]] = {
    "leave the range": Bug(1, decide, "limited", _limit_nothing),
    "forget recommendations": Bug(1, decide, "stabilized", _remember_nothing),
    "scale what stands at zero": Bug(1, plan, "start", _always_measure),
    "let two autoscalers fight": Bug(
        0,
        Overlaps,
        "selecting",
        lambda *_: [],
        "two-autoscalers-over-one-target",
    ),
    "forget to drop a selector": Bug(1, Overlaps, "forget", lambda *_: None),
}
