"""Handlers and sync of the job controller (job_controller.go)."""

from functools import partial
from typing import Final

from controller_manager.api.batch.v1 import JOBS, Job
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import key_of
from controller_manager.api.resource import AnyResource
from controller_manager.api.selectors import Selector, SelectorError, compile_selector
from controller_manager.client.errors import Conflict, NotFound, is_about
from controller_manager.client.events import WARNING
from controller_manager.control.claims import Claimer
from controller_manager.control.expectations import State
from controller_manager.control.owner_reads import OwnerReads
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import (
    DONE,
    Done,
    Failed,
    Outcome,
    Requeue,
    SyncError,
)
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Owns
from controller_manager.workqueue.ratelimiters import Backoff, ExponentialBackoff

from .actions import Wait
from .apply import JobApplier
from .conditions import is_finished
from .decide import JobDecision, decide
from .finished_condition import FinishedCondition, completed, seconds_to_deadline
from .gang_scheduling import GangScheduling
from .metrics import RECONCILING, JobMetrics, action_of
from .options import MUTABLE_DIRECTIVES, READS_OWN_WRITES, JobOptions
from .orphans import FIRST_RETRY, LAST_RETRY, OrphanPods
from .spec import (
    INDEXED,
    NON_INDEXED,
    completion_mode,
    external_manager,
    index_count,
    is_indexed,
)
from .tracker import JobTracker
from .uncounted_pods import (
    PodWrites,
    active_after,
    count_released,
    first_status,
    with_final_condition,
)
from .view import FINALIZER, JobView, is_uncounted

BATCH_PERIOD: Final = 1.0
"""Seconds from a change of a pod or a status until the sync: many changes cause one."""

_UNSEEN_RECHECK: Final = 5.0
"""Seconds until the next sync while the cache does not show all writes."""


def init_job_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (newJobController)."""
    reconciler = JobReconciler(context)
    return WorkerGroup(reconciler.make_workers(), reconciler.orphans.make_workers())


def _batched_unless_changed(_: object, old: Job, new: Job) -> float:
    """Return the delay of an update: a new spec is synced at once."""
    same = old.metadata.generation == new.metadata.generation
    return BATCH_PERIOD if same else 0.0


class JobReconciler(Reconciler[Job]):
    """Runs the pods of jobs, and counts those that have ended."""

    watches = (
        For(JOBS, update_delay=_batched_unless_changed),
        Owns(PODS, delay=BATCH_PERIOD),
    )
    queue_name = "job"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.workers = context.config.of(JobOptions).concurrent_syncs
        gates = context.config.features
        self.reads_own_writes = gates.is_enabled(READS_OWN_WRITES)
        self._keeps_start = not gates.is_enabled(MUTABLE_DIRECTIVES)
        self._pods = self.lister(PODS)
        self._metrics = context.metrics.of(JobMetrics)
        self._tracker = JobTracker(context, reads_own_writes=self.reads_own_writes)
        self._stored = OwnerReads(
            context.client, JOBS, self.objects, context.consistency
        )
        self._applier = JobApplier(
            context.client,
            context.recorder,
            self._tracker.expectations,
            self._metrics,
            self._tracker.indexes,
        )
        self._claimer = Claimer(context.client, JOBS, PODS, FINALIZER, is_uncounted)
        self._gangs = GangScheduling(context)
        self.orphans = OrphanPods(context, self._metrics)
        context.informers.informer(JOBS).add_handler(Handler(on_add=self._added))

    # Handlers, and the state that they keep.

    def _added(self, job: Job) -> None:
        if (manager := external_manager(job)) is not None:
            self._metrics.managed_elsewhere(manager)

    def backoff(self) -> Backoff:
        """Return the delays between retries: from a second to a minute."""
        return ExponentialBackoff(FIRST_RETRY, LAST_RETRY)

    def starting(self) -> None:
        """Note that this process starts to lead."""
        self._tracker.takeover.start_leading()
        self._stored.start_leading()

    def deleted(self, obj: Job) -> None:
        """Drop the state of a job, so that a new job of its name starts anew."""
        self._tracker.forget(key_of(obj))
        self._stored.forget(obj)

    def forget(self, key: str) -> None:
        """Drop all state of a key whose job is gone."""
        self._tracker.forget(key)

    def dependent_added(self, key: str, obj: Pod) -> None:  # noqa: ARG002 - any pod
        """Note that the watch shows an expected creation."""
        self._tracker.expectations.creations_settled(key)

    def dependent_gone(self, key: str, obj: Pod) -> None:
        """Note that the watch shows the deletion of this pod."""
        self._tracker.expectations.deletion_settled(key, obj.metadata.uid)

    def is_known_gone(self, obj: Job) -> bool:
        """Tell whether the API server has said that this cached job is gone."""
        return self._stored.is_known_gone(obj)

    def stale(self, resource: AnyResource) -> None:
        """Count a sync that waits for a cache, if upstream's gate is enabled."""
        if self.reads_own_writes:
            self._metrics.stale_syncs.count(resource)

    # The decision.

    async def reconcile(self, job: Job) -> Outcome:
        """Create, delete and count the pods of a job that has not finished."""
        if external_manager(job) is not None:
            return DONE
        if is_finished(job):
            self._tracker.forget(key_of(job))
            return DONE
        if self._tracker.has_finished(job):
            return DONE  # the cache will show its end, which adds the key again
        if completion_mode(job) not in (INDEXED, NON_INDEXED):
            message = "Skipped Job sync because completion mode is unknown"
            self.recorder.event(JOBS, job, WARNING, "UnknownCompletionMode", message)
            return DONE
        begun = self.clock.monotonic()
        action, next_change = RECONCILING, self._deadline(job)
        try:
            decision = await self._decide(job)
            if isinstance(decision, Requeue):
                outcome: Outcome = decision
            else:
                next_change = self._next_change(job, decision)
                group = ""
                if decision.is_decided:
                    action = action_of(decision.plan)
                    group = await self._gangs.group_of(job, decision.view.pods)
                await self._carry_out(decision, group)
                outcome = Done(self._requeue_after(job, next_change))
        except Exception as error:  # noqa: BLE001 - the worker reports it
            outcome = Failed(error, next_change)
            await self._see_change(job, error)
        seconds = self.clock.monotonic() - begun
        failed = isinstance(outcome, Failed)
        self._metrics.synced(job, action, seconds, failed=failed)
        return outcome

    async def _see_change(self, job: Job, error: Exception) -> None:
        """Wait for the cache after a refusal that shows that the job has changed."""
        if not isinstance(error, (Conflict, NotFound)):
            return
        if is_about(error, job.metadata.name):
            await self._stored.wait_for_cache(job)

    async def _decide(self, job: Job) -> JobDecision | Requeue:
        """Claim the pods of a job, and return the decision."""
        key, selector = key_of(job), _selector_of(job)
        expected = self._tracker.expected(key)
        if expected is State.UNKNOWN:
            return await self._read_api_server(job, selector)
        pods = await self._claim(job, selector)
        decision = decide(
            job,
            pods,
            self.clock.now(),
            released=self._tracker.still_shown(key, pods),
            deleted_surplus=self._tracker.expectations.awaited_deletions(key),
            backoff=self._tracker.backoff(key),
            may_change=expected is State.FULFILLED,
            read=partial(self._tracker.indexes.read, key),
        )
        if decision.writes and self._tracker.takeover.must_recheck(job):
            return await self._read_api_server(job, selector, is_takeover=True)
        return decision

    async def _carry_out(self, decision: JobDecision, group: str) -> None:
        """Change the number of pods, then count those that have ended.

        New pods name the `group`, unless it is empty.
        """
        view, finished = decision.view, decision.finished
        key = key_of(view.job)
        if finished is not None:
            writes = await self._applier.delete_active(view)
            if active_after(view, writes) or not self._tracker.is_settled(key):
                finished = None  # pods that may still run are not counted yet
        else:
            writes = PodWrites()
            if decision.is_decided:
                plan = decision.plan
                writes = await self._applier.carry_out(view, plan, group)
            if decision.sees_all_pods:
                finished = completed(view, active_after(view, writes))
        await self._track(view, writes, finished)
        if writes.failure is not None:
            raise writes.failure

    async def _track(
        self, view: JobView, writes: PodWrites, finished: FinishedCondition | None
    ) -> None:
        """Write the first status, remove finalizers, and write the second status."""
        key = key_of(view.job)
        self._note_indexes(view)
        now = self.clock.now()
        count = first_status(view, writes, finished, now, keeps_start=self._keeps_start)
        job = await self._applier.write_status(view.job, count.status)
        self._tracker.set_backoff(key, view.backoff)
        self._metrics.failures_handled(count.actions)
        released, failure = await self._applier.release(count.released)
        self._tracker.add_released(key, released)
        tracked = {pod.metadata.uid for pod in view.tracked} - released
        status = count_released(job.status, tracked)
        if failure is None and count.is_whole:
            status = with_final_condition(job, status, finished, self.clock.now())
        job = await self._applier.write_status(job, status)
        if is_finished(job):
            self._tracker.add_finished(job)
        if failure is not None:
            raise failure

    def _deadline(self, job: Job) -> float | None:
        """Return the seconds until activeDeadlineSeconds are over."""
        deadline = seconds_to_deadline(job, self.clock.now())
        return None if deadline is None else max(deadline, 0.0)

    def _next_change(self, job: Job, decision: JobDecision) -> float | None:
        """Return the seconds until the deadline, or the end of the pods' backoff."""
        deadline = self._deadline(job) if decision.finished is None else None
        if not isinstance(decision.plan, Wait):
            return deadline
        backoff = max(decision.plan.seconds, BATCH_PERIOD)
        return backoff if deadline is None else min(backoff, deadline)

    def _requeue_after(self, job: Job, next_change: float | None) -> float | None:
        """Return the seconds until the next sync, `None` for no such sync.

        The watch may never show a write of this sync. So another sync is due even
        without an event.
        """
        if self._tracker.is_settled(key_of(job)):
            return next_change
        if next_change is None:
            return _UNSEEN_RECHECK
        return min(_UNSEEN_RECHECK, next_change)

    async def _claim(self, job: Job, selector: Selector) -> list[Pod]:
        orphans = self._pods.orphans(job.metadata.namespace, selector)
        owned = self._pods.controlled_by(job)
        return await self._claimer.claim(job, selector, (*owned, *orphans))

    def _note_indexes(self, view: JobView) -> None:
        """Keep the indexes of the texts of the next status."""
        job = view.job
        if not is_indexed(job):
            return
        for indexes in (view.completed, view.failed_indexes):
            if indexes is not None:
                key, count = key_of(job), index_count(job)
                self._tracker.indexes.note(key, indexes.format(), count, indexes)

    async def _read_api_server(
        self, job: Job, selector: Selector, *, is_takeover: bool = False
    ) -> Requeue:
        """Make the key wait until the caches show the objects that are stored now."""
        key = key_of(job)
        stored = await self._stored.wait_for_all_caches(
            job, selector, is_takeover=is_takeover
        )
        cached = self._pods.controlled_by(job)
        gone = frozenset(pod.metadata.uid for pod in cached if stored.lacks(pod))
        # A deleted pod had lost its finalizer, so it was mentioned or counted.
        self._tracker.add_released(key, gone)
        self._tracker.expectations.forget(key)
        self._tracker.takeover.rechecked(key)
        self.logger.v(2).info("The cache may be stale, read from the API server")
        return Requeue(0.0, "the cache may be stale")


def _selector_of(job: Job) -> Selector:
    """Return the selector; raises SyncError for one that cannot be evaluated."""
    try:
        return compile_selector(job.spec.selector)
    except SelectorError as error:
        msg = f"the selector of the job cannot be used: {error}"
        raise SyncError(msg) from error
