"""Writes of the autoscaler: the scale of its target, its status, events."""

from msgspec.structs import replace

from controller_manager.api.autoscaling.v2 import (
    HORIZONTAL_POD_AUTOSCALERS,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerStatus,
)
from controller_manager.client.client import Client
from controller_manager.client.events import NORMAL, WARNING, EventRecorder

from .scale_target import REQUEST_ERRORS, TargetScale, TargetScales


class SyncFailed(Exception):
    """A sync that failed; the message is for the log.

    `is_spec` is true if the spec of the autoscaler is the cause.
    """

    def __init__(self, message: str, *, is_spec: bool = False) -> None:
        super().__init__(message)
        self.is_spec = is_spec


class Writer:
    """Writes the scale, the status and the events of one autoscaler."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        scales: TargetScales,
        autoscaler: HorizontalPodAutoscaler,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._scales = scales
        self._autoscaler = autoscaler

    def warn(self, reason: str, message: str) -> None:
        """Record a warning about the autoscaler."""
        self._event(WARNING, reason, message)

    async def rescale(self, target: TargetScale, replicas: int, why: str) -> None:
        """Set the replicas of the target, and record an event.

        Raises the errors of the client, and records an event about each.
        """
        try:
            await self._scales.set(target, replicas)
        except REQUEST_ERRORS as error:
            message = f"New size: {replicas}; reason: {why}; error: {error}"
            self.warn("FailedRescale", message)
            raise
        self._event(NORMAL, "SuccessfulRescale", f"New size: {replicas}; reason: {why}")

    async def report(self, status: HorizontalPodAutoscalerStatus) -> None:
        """Write the status, unless the autoscaler has it already.

        Raises SyncFailed, and records an event, if the status cannot be written.
        """
        known = self._autoscaler
        if _as_stored(status) == _as_stored(known.status):
            return
        changed = replace(known, status=status)
        try:
            await self._client.update_for_metadata(
                HORIZONTAL_POD_AUTOSCALERS, changed, "status"
            )
        except REQUEST_ERRORS as error:
            self.warn("FailedUpdateStatus", str(error))
            msg = f"failed to update status for {known.metadata.name}: {error}"
            raise SyncFailed(msg) from error

    def _event(self, event_type: str, reason: str, message: str) -> None:
        self._recorder.event(
            HORIZONTAL_POD_AUTOSCALERS, self._autoscaler, event_type, reason, message
        )


def _as_stored(
    status: HorizontalPodAutoscalerStatus,
) -> HorizontalPodAutoscalerStatus:
    return replace(
        status,
        conditions=status.conditions or None,
        current_metrics=status.current_metrics or None,
    )
