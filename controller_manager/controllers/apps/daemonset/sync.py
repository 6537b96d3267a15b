"""The changes of pods in one sync: missing and surplus pods, then the update.

Missing, failed and surplus pods (manage and podsShouldBeOnNode).
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import key_of
from controller_manager.api.pods import is_ready
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger

from .actions import Deletion, Plan, in_burst
from .apply import DaemonPods
from .backoff import Delays, FailedPodBackoff
from .nodes import Fit
from .rolling_update import allows_surge, plan_update
from .view import View, oldest_first


def manage_pods(view: View, delays: Delays, now: datetime) -> Plan:
    """Return the plan that gives each node the pods that it must have.

    A failed pod is not replaced before its delay ends. With maxSurge, too, no pod is
    created beside a failed pod that waits: that one may fail as well, and so on. The
    plan has the order of the nodes in the view.
    """
    nodes: list[str] = []
    deletions: list[Deletion] = []
    waits = [*delays.missing.values()]
    for node, fit in view.fits.items():
        if fit is not Fit.NONE and view.is_at_rest(node):
            continue
        is_held = node in delays.missing
        if fit is Fit.RUN and not view.on(node):
            if not is_held:
                nodes.append(node)
        elif fit is Fit.NONE:
            deletions += (Deletion(node, pod) for pod in view.staying(node))
        else:
            running, ended = _running_and_ended(view.staying(node))
            delay = delays.failed.get(node)
            leaving, waiting = _ended_to_delete(ended, delay)
            deletions += (Deletion(node, pod, has_ended=True) for pod in leaving)
            if waiting and delay is not None:
                waits.append(delay)
                is_held = True
            surplus = _surplus(view, running, now)
            deletions += (Deletion(node, pod) for pod in surplus)
            may_have_another = fit is Fit.RUN and not running and not is_held
            if may_have_another and allows_surge(view.daemon_set):
                nodes.append(node)
    deletions += _without_node(view)
    return in_burst(nodes, deletions, min(waits, default=None))


def _running_and_ended(pods: Sequence[Pod]) -> tuple[list[Pod], list[Pod]]:
    """Return the pods that have not ended, and the pods that have ended."""
    running = [pod for pod in pods if pod.status.phase not in ("Failed", "Succeeded")]
    ended = [pod for pod in pods if pod.status.phase in ("Failed", "Succeeded")]
    return running, ended


def _ended_to_delete(
    ended: Sequence[Pod], delay: float | None
) -> tuple[list[Pod], bool]:
    """Return the ended pods to delete, and whether a failed one waits.

    While there is a delay, failed pods wait: a kubelet may reject every pod. Only one
    failed pod is deleted at a time, because its deletion begins a new delay.
    """
    leaving = [pod for pod in ended if pod.status.phase == "Succeeded"]
    failed = [pod for pod in ended if pod.status.phase == "Failed"]
    if delay is None and failed:
        return [*leaving, failed[0]], len(failed) > 1
    return leaving, bool(failed)


def _surplus(view: View, running: Sequence[Pod], now: datetime) -> list[Pod]:
    """Return the surplus pods of one node."""
    if len(running) <= 1:
        return []
    if not allows_surge(view.daemon_set):
        return oldest_first(running)[1:]
    new = [pod for pod in oldest_first(running) if view.has_current_hash(pod)]
    old = [pod for pod in oldest_first(running) if not view.has_current_hash(pod)]
    surplus = [*new[1:], *old[1:]]
    if new and old and _is_superseded(view, old[0], new[0], now):
        surplus.append(old[0])
    return surplus


def _is_superseded(view: View, old: Pod, new: Pod, now: datetime) -> bool:
    """Tell whether the old pod may be deleted without losing an available pod."""
    return not is_ready(old) or view.is_available(new, now)


def _without_node(view: View) -> Iterator[Deletion]:
    """Yield unbound pods whose node is gone.

    The scheduler cannot bind them, and the pod garbage collector does not delete them.
    """
    for node in view.pods:
        if node not in view.fits:
            for pod in view.staying(node):
                if not pod.spec.node_name:
                    yield Deletion(node, pod)


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
