"""What is known of a target before any metric is read, and what follows."""

from typing import Final

from msgspec import Struct

from controller_manager.api.autoscaling.v2 import HorizontalPodAutoscalerSpec

_OBJECT: Final = "Object"
_EXTERNAL: Final = "External"

ABOVE_MAXIMUM: Final = "Current number of replicas above Spec.MaxReplicas"
BELOW_MINIMUM: Final = "Current number of replicas below Spec.MinReplicas"
BELOW_TARGET: Final = "All metrics below target"


class Start(Struct, frozen=True):
    """What to do with a target: read its metrics, or set `desired`, or nothing.

    `is_disabled` says that the target stands at zero and is left alone. The `reason`
    is that of the event, if the number changes.
    """

    desired: int
    reason: str = ""
    needs_metrics: bool = False
    is_disabled: bool = False


def minimum_of(spec: HorizontalPodAutoscalerSpec) -> int:
    """Return the least number of replicas; 1 if the spec does not say."""
    return 1 if spec.min_replicas is None else spec.min_replicas


def can_leave_zero(spec: HorizontalPodAutoscalerSpec) -> bool:
    """Tell whether a metric has a value also while there are no pods."""
    return any(each.type in (_OBJECT, _EXTERNAL) for each in spec.metrics or ())


def start(
    spec: HorizontalPodAutoscalerSpec, current: int, *, was_scaled_to_zero: bool
) -> Start:
    """Return what to do with a target that has `current` replicas in its spec.

    `was_scaled_to_zero` says that an autoscaler has scaled it to zero, and not a user.
    Upstream: reconcileAutoscaler in pkg/controller/podautoscaler/horizontal.go.
    """
    minimum = minimum_of(spec)
    if current == 0:
        may_leave = minimum != 0 or can_leave_zero(spec)
        if was_scaled_to_zero and may_leave:
            return Start(0, needs_metrics=True)
        return Start(0, is_disabled=True)
    if current > spec.max_replicas:
        return Start(spec.max_replicas, ABOVE_MAXIMUM)
    if current < minimum:
        return Start(minimum, BELOW_MINIMUM)
    return Start(current, needs_metrics=True)


def reason_for(current: int, desired: int, metric: str) -> str:
    """Return the reason of a change that metrics ask for; empty for none."""
    if desired > current:
        return f"{metric} above target"
    return BELOW_TARGET if desired < current else ""
