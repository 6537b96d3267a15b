"""The rules of a behavior, with the defaults of what it leaves out."""

from datetime import timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.autoscaling.v2 import (
    HorizontalPodAutoscalerBehavior,
    HPAScalingPolicy,
    HPAScalingRules,
)

PODS: Final = "Pods"
PERCENT: Final = "Percent"

MAX: Final = "Max"
MIN: Final = "Min"
DISABLED: Final = "Disabled"

_UP: Final = HPAScalingRules(
    stabilization_window_seconds=0,
    select_policy=MAX,
    policies=(HPAScalingPolicy(PODS, 4, 15), HPAScalingPolicy(PERCENT, 100, 15)),
)
_DOWN: Final = HPAScalingRules(
    select_policy=MAX, policies=(HPAScalingPolicy(PERCENT, 100, 15),)
)


class ScalingRules(Struct, frozen=True):
    """The complete rules of both directions: no field but the tolerance is `None`."""

    up: HPAScalingRules
    down: HPAScalingRules

    @property
    def longest_window(self) -> timedelta:
        """The longer of the two stabilization windows."""
        windows = (
            self.up.stabilization_window_seconds or 0,
            self.down.stabilization_window_seconds or 0,
        )
        return timedelta(seconds=max(windows))

    @property
    def longest_period(self) -> timedelta:
        """The longest period of all policies of both directions."""
        policies = (*(self.up.policies or ()), *(self.down.policies or ()))
        seconds = max((each.period_seconds for each in policies), default=0)
        return timedelta(seconds=seconds)


def complete_rules(
    behavior: HorizontalPodAutoscalerBehavior, downscale_stabilization: int = 0
) -> ScalingRules:
    """Return the rules of a behavior.

    `downscale_stabilization` is the window of a behavior that names none, in seconds.

    Upstream: GenerateHPAScaleUpRules and GenerateHPAScaleDownRules in
    pkg/apis/autoscaling/v2/defaults.go, which the API server applies; and
    maybeInitScaleDownStabilizationWindow in pkg/controller/podautoscaler/horizontal.go.
    """
    down = replace(_DOWN, stabilization_window_seconds=downscale_stabilization)
    return ScalingRules(
        _completed(behavior.scale_up, _UP), _completed(behavior.scale_down, down)
    )


def _completed(
    rules: HPAScalingRules | None, defaults: HPAScalingRules
) -> HPAScalingRules:
    if rules is None:
        return defaults
    given = {
        name: value
        for name in HPAScalingRules.__struct_fields__
        if (value := getattr(rules, name)) is not None
    }
    return replace(defaults, **given)
