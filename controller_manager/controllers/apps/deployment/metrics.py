"""The metric of the deployment controller: the duration of rollouts."""

from prometheus_client import CollectorRegistry, Histogram

from controller_manager.api.apps.v1 import DeploymentStatus
from controller_manager.api.meta import find_condition
from controller_manager.clock import Clock

from .status import NEW_REPLICA_SET_AVAILABLE, PROGRESSING


def rollout_duration(registry: CollectorRegistry) -> Histogram:
    """Return the metric, which upstream does not export."""
    return Histogram(
        "deployment_rollout_duration_seconds",
        "Seconds from a change of a deployment until it is complete",
        buckets=(1, 5, 10, 30, 60, 120, 300, 600, 1200, 3600),
        registry=registry,
    )


class RolloutTimes:
    """Measures the time from the first sync of a rollout to the sync that completes it.

    A rollout that began before this process started is measured from its first sync
    in this process. A rollout without a progress deadline has no condition
    Progressing, so it is not measured.
    """

    def __init__(self, clock: Clock, duration: Histogram) -> None:
        self._clock = clock
        self._duration = duration
        self._started: dict[str, float] = {}

    def reported(self, key: str, status: DeploymentStatus) -> None:
        """Record the status that a sync of `key` has calculated."""
        progressing = find_condition(status.conditions, PROGRESSING)
        if progressing is None:
            self._started.pop(key, None)
        elif progressing.reason != NEW_REPLICA_SET_AVAILABLE:
            self._started.setdefault(key, self._clock.monotonic())
        elif (started := self._started.pop(key, None)) is not None:
            self._duration.observe(self._clock.monotonic() - started)

    def forget(self, key: str) -> None:
        """Drop the state of a deployment that is gone."""
        self._started.pop(key, None)
