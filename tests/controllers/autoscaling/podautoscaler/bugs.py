"""Deliberate bugs of the horizontal pod autoscaler controller."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from controller_manager.api.autoscaling.v2 import HorizontalPodAutoscalerSpec
from controller_manager.controllers.autoscaling.podautoscaler import behavior
from controller_manager.controllers.autoscaling.podautoscaler.behavior import (
    WITHIN_RANGE,
    FirstDecision,
    History,
    Limited,
)
from controller_manager.controllers.autoscaling.podautoscaler.selectors import (
    Overlaps,
)
from tests.simulation.planted import Bug


def _limit_nothing(current: int, desired: int, minimum: int, maximum: int) -> Limited:
    del current, minimum, maximum
    return Limited(desired, WITHIN_RANGE)


def _remember_nothing(
    history: History, desired: int, now: datetime, window: timedelta
) -> int:
    del history, now, window
    return desired


def _always_measure(
    spec: HorizontalPodAutoscalerSpec, current: int, *, was_scaled_to_zero: bool
) -> FirstDecision:
    del was_scaled_to_zero
    if current < behavior.minimum_of(spec):
        return FirstDecision(behavior.minimum_of(spec), behavior.BELOW_MINIMUM)
    return FirstDecision(current, needs_metrics=True)


BUGS: Final[Mapping[str, Bug]] = {
    "leave the range": Bug(1, behavior, "limited", _limit_nothing),
    "forget recommendations": Bug(1, behavior, "stabilized", _remember_nothing),
    "scale what stands at zero": Bug(1, behavior, "first_decision", _always_measure),
    "let two autoscalers fight": Bug(
        0,
        Overlaps,
        "selecting",
        lambda *_: [],
        "two-autoscalers-over-one-target",
    ),
    "forget to drop a selector": Bug(1, Overlaps, "forget", lambda *_: None),
}
