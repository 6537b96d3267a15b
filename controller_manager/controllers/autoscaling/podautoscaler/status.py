"""The status of an autoscaler, while a sync works on it, and the failure of one."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from controller_manager.api.autoscaling.v2 import (
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus,
    MetricStatus,
)
from controller_manager.api.scalars import format_time

ABLE_TO_SCALE: Final = "AbleToScale"
SCALING_ACTIVE: Final = "ScalingActive"
SCALING_LIMITED: Final = "ScalingLimited"
SCALED_TO_ZERO: Final = "ScaledToZero"

TRUE: Final = "True"
FALSE: Final = "False"


class SyncFailed(Exception):
    """A failed part of a sync, for the log; by the autoscaler's spec if `is_spec`."""

    def __init__(self, message: str, *, is_spec: bool = False) -> None:
        super().__init__(message)
        self.is_spec = is_spec


class Draft:
    """A status to which a sync adds its conditions one after the other.

    The status that is written has no observedGeneration, as upstream's.
    """

    def __init__(self, autoscaler: HorizontalPodAutoscaler, now: datetime) -> None:
        """Begin with the status that the cache shows; `now` is the time of the sync."""
        self._now = format_time(now)
        self._before = autoscaler.status
        self._after = autoscaler.status
        self._conditions = {
            each.type: each for each in autoscaler.status.conditions or ()
        }

    def set(self, condition: str, status: str, reason: str, message: str) -> None:
        """Set a condition; its time changes only together with its status."""
        known = self._conditions.get(condition)
        since: str | None = self._now
        if known is not None and known.status == status:
            since = known.last_transition_time
        self._conditions[condition] = HorizontalPodAutoscalerCondition(
            type=condition,
            status=status,
            last_transition_time=since,
            reason=reason,
            message=message,
        )

    def remove(self, condition: str) -> None:
        """Remove a condition, if there is one."""
        self._conditions.pop(condition, None)

    def is_true(self, condition: str) -> bool:
        """Tell whether a condition is true."""
        known = self._conditions.get(condition)
        return known is not None and known.status == TRUE

    def measured(self, current: int, metrics: Iterable[MetricStatus]) -> None:
        """Set current replicas and metrics; the number of desired replicas stays."""
        self.decided(current, self._before.desired_replicas, metrics)

    def decided(
        self,
        current: int,
        desired: int,
        metrics: Iterable[MetricStatus],
        *,
        rescaled: bool = False,
    ) -> None:
        """Set all numbers and the metrics; with `rescaled`, set the scale time, too."""
        last = self._now if rescaled else self._before.last_scale_time
        self._after = HorizontalPodAutoscalerStatus(
            last_scale_time=last,
            current_replicas=current,
            desired_replicas=desired,
            current_metrics=tuple(metrics) or None,
        )

    def status(self) -> HorizontalPodAutoscalerStatus:
        """Return the status to write."""
        return replace(self._after, conditions=tuple(self._conditions.values()) or None)

    @property
    def has_changed(self) -> bool:
        """True if the status to write differs from the one that the cache shows."""
        return _as_stored(self.status()) != _as_stored(self._before)


def _as_stored(status: HorizontalPodAutoscalerStatus) -> HorizontalPodAutoscalerStatus:
    return replace(
        status,
        conditions=status.conditions or None,
        current_metrics=status.current_metrics or None,
    )
