"""Measures the duration of rollouts."""

from controller_manager.api.apps.v1 import DeploymentStatus
from controller_manager.clock import Clock
from controller_manager.controllers.apps.deployment.metrics import RolloutMetrics
from controller_manager.controllers.apps.deployment.progress import (
    NEW_REPLICA_SET_AVAILABLE,
)
from controller_manager.controllers.apps.deployment.status import (
    PROGRESSING,
    find_condition,
)


class RolloutTimes:
    """Measures from the first sync of a rollout to the one that completes it.

    A rollout that began before this process started is measured from its first sync
    in this process. A rollout without a progress deadline has no condition
    Progressing and is not measured.
    """

    def __init__(self, clock: Clock, metrics: RolloutMetrics) -> None:
        """Take the clock and the metric."""
        self._clock = clock
        self._metrics = metrics
        self._started: dict[str, float] = {}

    def reported(self, key: str, status: DeploymentStatus) -> None:
        """Note the status that a sync of `key` calculated."""
        progressing = find_condition(status.conditions or (), PROGRESSING)
        if progressing is None:
            self._started.pop(key, None)
        elif progressing.reason != NEW_REPLICA_SET_AVAILABLE:
            self._started.setdefault(key, self._clock.monotonic())
        elif (started := self._started.pop(key, None)) is not None:
            self._metrics.completed(self._clock.monotonic() - started)

    def forget(self, key: str) -> None:
        """Drop the state of a deployment that is gone."""
        self._started.pop(key, None)
