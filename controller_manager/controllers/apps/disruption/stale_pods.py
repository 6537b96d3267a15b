"""Resets the condition DisruptionTarget of pods that were not deleted.

Upstream: syncStalePodDisruption of disruption.go.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import find_condition, is_deleting, key_of, metadata_of
from controller_manager.api.pods import is_terminal
from controller_manager.api.policy.v1 import BUDGETS
from controller_manager.api.scalars import format_time, parse_time
from controller_manager.client.rest.errors import NotFound
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Done, Outcome
from controller_manager.runtime.worker import Workers

DISRUPTION_TARGET: Final = "DisruptionTarget"
STALE_AFTER: Final = timedelta(minutes=2)
"""The time in which a pod with the condition should be deleted."""

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)

_BY_KUBELET: Final = "TerminationByKubelet"
"""The reason of a kubelet's condition: its pod may take any time to end."""


def stale_since(pod: Pod) -> datetime | None:
    """Return the instant at which the condition of a pod becomes stale, if ever."""
    condition = find_condition(pod.status.conditions, DISRUPTION_TARGET)
    if condition is None or condition.status != "True":
        return None
    if condition.reason == _BY_KUBELET or is_deleting(pod) or is_terminal(pod):
        return None
    if not condition.last_transition_time:
        return _LONG_AGO
    return parse_time(condition.last_transition_time) + STALE_AFTER


class StalePodDisruptions:
    """Sets the condition to False if a pod has not ended two minutes after it."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._client = context.client
        self._clock = context.server_clock
        self._logger = context.logger
        self._queue = context.queue("stale_pod_disruption")
        self._pods = context.lister(PODS)
        self._budgets = context.lister(BUDGETS)

    def handler(self) -> Handler[Pod]:
        """Return the handler of pods."""
        return Handler(
            on_add=self._changed,
            on_update=lambda _, new: self._changed(new),
            on_delete=lambda pod: self._queue.cancel(key_of(pod)),
            depends_on=DependsOn(
                "metadata.deletionTimestamp",
                f"status.conditions[{DISRUPTION_TARGET}]",
                "status.phase",
            ),
        )

    def make_workers(self) -> Workers:
        """Return one worker, as upstream has; it does not run yet."""
        return self._context.workers(self._queue, self._sync, 1, self._start)

    def _start(self) -> Iterator[None]:
        for pod in self._pods.all():
            self._changed(pod)
            yield

    def _changed(self, pod: Pod) -> None:
        if (since := stale_since(pod)) is not None:
            self._queue.add_after(key_of(pod), self._seconds_until(since))

    def _seconds_until(self, moment: datetime) -> float:
        return max(0.0, (moment - self._clock.now()).total_seconds())

    async def _sync(self, key: str) -> Outcome:
        pod = self._pods.by_key(key)
        since = stale_since(pod) if pod is not None else None
        if pod is None or since is None:
            return DONE
        if left := self._seconds_until(since):
            return Done(left)
        await self._reset(pod)
        if self._budgets.by_key(key) is None:
            # This is the key of a pod, so no sync waits until the cache shows the
            # write.
            self._context.consistency.forget(key)
        return DONE

    async def _reset(self, pod: Pod) -> None:
        patch = {"status": {"conditions": [self._reset_condition(pod)]}}
        what = (metadata_of(PODS), pod, patch)
        try:
            await self._client.patch_exactly(
                *what, subresource="status", same_version=True
            )
        except NotFound:
            return
        self._logger.v(2).info(
            "Reset stale DisruptionTarget condition to False", pod=key_of(pod)
        )

    def _reset_condition(self, pod: Pod) -> dict[str, Any]:
        """Return the new condition; the API server removes the null fields."""
        condition: dict[str, Any] = {
            "type": DISRUPTION_TARGET,
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": format_time(self._clock.now()),
            "reason": None,
            "message": None,
        }
        if pod.metadata.generation:
            condition["observedGeneration"] = pod.metadata.generation
        return condition
