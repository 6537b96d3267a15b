"""How far an autoscaler without a behavior may change the number of replicas."""

from typing import Final

from msgspec import Struct

from controller_manager.controllers.autoscaling.podautoscaler.replicas.amounts import (
    rounded_up,
)

_FACTOR: Final = 2.0
_AT_LEAST: Final = 4.0


class Limited(Struct, frozen=True):
    """A number of replicas within the limits, and the limit that decided it.

    The reason and the message are those of the condition ScalingLimited.
    """

    replicas: int
    reason: str
    message: str


def within_range(replicas: int) -> Limited:
    """Return a number that no limit changes."""
    message = "the desired count is within the acceptable range"
    return Limited(replicas, "DesiredWithinRange", message)


def too_few(minimum: int) -> Limited:
    """Return the minimum, where fewer are desired."""
    message = "the desired replica count is less than the minimum replica count"
    return Limited(minimum, "TooFewReplicas", message)


def too_many(maximum: int) -> Limited:
    """Return the maximum, where more are desired."""
    message = "the desired replica count is more than the maximum replica count"
    return Limited(maximum, "TooManyReplicas", message)


def too_fast_up(limit: int) -> Limited:
    """Return what may be reached now, where more are desired."""
    message = (
        "the desired replica count is increasing faster than the maximum scale rate"
    )
    return Limited(limit, "ScaleUpLimit", message)


def too_fast_down(limit: int) -> Limited:
    """Return what may be reached now, where fewer are desired."""
    message = (
        "the desired replica count is decreasing faster than the maximum scale rate"
    )
    return Limited(limit, "ScaleDownLimit", message)


def limited(current: int, desired: int, minimum: int, maximum: int) -> Limited:
    """Return the number nearest to `desired` that the limits allow.

    In one step the number may at most double, or reach 4: a wrong metric shall not
    multiply a workload.

    Upstream: convertDesiredReplicasWithRules in
    pkg/controller/podautoscaler/horizontal.go.
    """
    if desired < minimum:
        return too_few(minimum)
    reachable = rounded_up(max(_FACTOR * current, _AT_LEAST))
    if desired > min(maximum, reachable):
        return too_fast_up(reachable) if maximum > reachable else too_many(maximum)
    return within_range(desired)
