"""The changes of pods in one sync: missing and surplus pods, then the update."""

from msgspec import Struct

from controller_manager.api.meta import key_of
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger

from .actions import Plan
from .apply import DaemonPods
from .backoff import Delays, FailedPodBackoff
from .decide import manage_pods
from .rolling_update import plan_update
from .view import View


class Progress(Struct):
    """The state of a sync after its writes; `requeue_after` is in seconds."""

    view: View
    failure: Exception | None = None
    requeue_after: float | None = None


class DaemonSetSync:
    """Plans with the pure functions, and carries the plans out."""

    def __init__(
        self,
        pods: DaemonPods,
        backoff: FailedPodBackoff,
        clock: Clock,
        logger: Logger,
    ) -> None:
        self._pods = pods
        self._backoff = backoff
        self._clock = clock
        self._logger = logger

    def are_needed(self, view: View) -> bool:
        """Tell whether a sync must create or delete pods."""
        return not (self._manage(view).is_empty and self._update(view).is_empty)

    async def carry_out(self, view: View) -> Progress:
        """Give each node its pods, then continue the update; stop at a failure."""
        progress = Progress(view)
        for plan_of in (self._manage, self._update):
            plan = plan_of(progress.view)
            if plan.requeue_after is not None:
                progress.requeue_after = plan.requeue_after
            if plan.is_empty:
                continue
            await self._change(progress, plan)
            if progress.failure is not None:
                break
        return progress

    async def _change(self, progress: Progress, plan: Plan) -> None:
        view = progress.view
        self._logger.v(2).info(
            "Changing pods", creating=len(plan.nodes), deleting=len(plan.deletions)
        )
        applied = await self._pods.carry_out(view.daemon_set, plan, view.revision_hash)
        progress.view = view.after(applied.created, applied.deleted)
        progress.failure = applied.failure

    def _manage(self, view: View) -> Plan:
        return manage_pods(view, self._delays(view), self._clock.now())

    def _update(self, view: View) -> Plan:
        return plan_update(view, self._delays(view).missing, self._clock.now())

    def _delays(self, view: View) -> Delays:
        generation = view.daemon_set.status.observed_generation
        return self._backoff.delays(key_of(view.daemon_set), generation, view.fits)
