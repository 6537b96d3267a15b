"""Watches, sync and writes of the job controller (job_controller.go)."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final

from msgspec.structs import replace

from controller_manager.api.batch.v1 import COMPLETE, FAILED, JOBS, Job, JobStatus
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import is_deleting, key_of, metadata_of
from controller_manager.api.selectors import Selector, SelectorError, compile_selector
from controller_manager.client.events.recorder import NORMAL, WARNING
from controller_manager.client.rest import errors
from controller_manager.control.controller_ref_manager import Claimer
from controller_manager.control.expectations import State, StoredPods
from controller_manager.control.pod_control import at_once
from controller_manager.control.pod_owner import PodOwnerReconciler
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import (
    DONE,
    Done,
    Failed,
    Outcome,
    SyncError,
    earliest,
)
from controller_manager.runtime.watches import For, Handles, Owns
from controller_manager.workqueue.ratelimiters import Backoff, ExponentialBackoff

from . import MUTABLE_DIRECTIVES, READS_OWN_WRITES, JobOptions
from .failures import BackoffRecord
from .gang_scheduling import GangScheduling
from .indexes import IndexTexts
from .metrics import RECONCILING, JobMetrics, action_of
from .orphans import FIRST_RETRY, LAST_RETRY, OrphanPods, remove_finalizer
from .pods import (
    FINALIZER,
    INDEXED,
    NON_INDEXED,
    PodPlan,
    Tally,
    completion_mode,
    external_manager,
    has_finalizer,
    index_count,
    is_indexed,
    is_uncounted,
    plan_pods,
    pod_bodies,
)
from .status import (
    SUSPENDED,
    FinishedCondition,
    PodWrites,
    active_after,
    completed,
    count_released,
    evaluate,
    first_status,
    is_finished,
    seconds_to_deadline,
    will_write,
    with_final_condition,
)

BATCH_PERIOD: Final = 1.0
"""Seconds from a change of a pod or a status until the sync: many changes cause one."""

_TOO_MANY: Final = "Too many succeeded pods running after completion count reached"


def init_job_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (newJobController)."""
    reconciler = JobReconciler(context)
    return WorkerGroup(reconciler.make_workers(), reconciler.orphans.make_workers())


def _batched_unless_changed(_: object, old: Job, new: Job) -> float:
    """Return the delay of an update: a new spec is synced at once."""
    same = old.metadata.generation == new.metadata.generation
    return BATCH_PERIOD if same else 0.0


class JobReconciler(PodOwnerReconciler[Job]):
    """Runs the pods of jobs, and counts those that have ended.

    Nothing is kept of a job that is finished or gone. A new process starts empty, and
    reads from the API server instead.
    """

    watches = (
        For(JOBS, update_delay=_batched_unless_changed),
        Owns(PODS, delay=BATCH_PERIOD),
        Handles(JOBS, lambda self: Handler(on_add=self._added)),
    )
    queue_name = "job"
    always_rechecks = True  # a job must not run twice

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.workers = context.config.of(JobOptions).concurrent_syncs
        gates = context.config.features
        self.reads_own_writes = gates.is_enabled(READS_OWN_WRITES)
        self._keeps_start = not gates.is_enabled(MUTABLE_DIRECTIVES)
        self._metrics = context.metrics.of(JobMetrics)
        self.stale_syncs = self._metrics.stale_syncs
        self._claimer = Claimer(context.client, JOBS, PODS, FINALIZER, is_uncounted)
        self._gangs = GangScheduling(context)
        self._indexes = IndexTexts()
        self._backoffs: dict[str, BackoffRecord] = {}
        """The backoff of each job after its counted pods."""
        self._released: dict[str, frozenset[str]] = {}
        """The uids of pods without finalizer, while the cache may still show it."""
        self._finished: dict[str, str] = {}
        """The uid of each job whose end was written, until the cache shows it."""
        self.orphans = OrphanPods(context, self._metrics)

    # Handlers, and the state that they keep.

    def _added(self, job: Job) -> None:
        if (manager := external_manager(job)) is not None:
            self._metrics.external.labels(manager).inc()

    def backoff(self) -> Backoff:
        """Return the delays between retries: from a second to a minute."""
        return ExponentialBackoff(FIRST_RETRY, LAST_RETRY)

    def forget(self, key: str) -> None:
        """Drop all state of a job that is gone or finished."""
        super().forget(key)
        self._indexes.forget(key)
        for state in (self._backoffs, self._released, self._finished):
            state.pop(key, None)

    # The sync.

    async def reconcile(self, job: Job) -> Outcome:
        """Create, delete and count the pods of a job (syncJob, job_controller.go)."""
        key = key_of(job)
        if external_manager(job) is not None:
            return DONE
        if is_finished(job):
            self.forget(key)
            return DONE
        if self._finished.get(key) == job.metadata.uid:
            # The cache will show its end, which adds the key again. A cache that does
            # not show it lacks the counted pods, too (finishedJobExpectations).
            return DONE
        if completion_mode(job) not in (INDEXED, NON_INDEXED):
            message = "Skipped Job sync because completion mode is unknown"
            self.recorder.event(JOBS, job, WARNING, "UnknownCompletionMode", message)
            return DONE
        begun = self.clock.monotonic()
        outcome, action = await self._sync_job(job)
        seconds = self.clock.monotonic() - begun
        failed = isinstance(outcome, Failed)
        self._metrics.synced(job, action, seconds, failed=failed)
        return outcome

    async def _sync_job(self, job: Job) -> tuple[Outcome, str]:
        """Sync a job; also return what was done about the number of pods."""
        key, action, next_change = key_of(job), RECONCILING, self._deadline(job)
        try:
            selector = _selector_of(job)
            expected = self._expected(key)
            if expected is State.UNKNOWN:
                return await self._read_api_server(job, selector), action
            candidates = self._pods.candidates(job, selector)
            pods = await self._claimer.claim(job, selector, candidates)
            sees_all_pods = expected is State.FULFILLED
            now = self.clock.now()
            tally, finished = self._evaluate(job, pods, now)
            plan = None
            if finished is None and sees_all_pods and not is_deleting(job):
                plan = plan_pods(tally, now)
            if will_write(tally, finished, plan) and self._takeover.must_recheck(job):
                requeue = await self._read_api_server(job, selector, is_takeover=True)
                return requeue, action
            next_change = self._next_change(job, finished, plan)
            if plan is not None:
                action = action_of(plan)
            if finished is not None:
                # They keep their finalizer, and are counted.
                delete = partial(self._delete_pod, tally.job)
                deleted, failure = await at_once(tally.active, delete)
                writes = PodWrites(deleted=deleted, failure=failure)
                if active_after(tally, writes) or not self._is_settled(key):
                    finished = None  # pods that may still run are not counted yet
            else:
                writes = await self._manage_job(job, tally, plan)
                if sees_all_pods:
                    finished = completed(tally, active_after(tally, writes))
            await self._track(tally, writes, finished)
            return Done(self._requeue_after(key, next_change)), action
        except Exception as error:  # noqa: BLE001 - the worker reports it
            await self._see_change(job, error)
            return Failed(error, next_change), action

    def _listed(self, owner: Job, stored: StoredPods) -> None:
        # A deleted pod had lost its finalizer, so it was mentioned or counted.
        cached = self._pods.controlled_by(owner)
        gone = frozenset(pod.metadata.uid for pod in cached if stored.lacks(pod))
        self._add_released(key_of(owner), gone)

    def _evaluate(
        self, job: Job, pods: Sequence[Pod], now: datetime
    ) -> tuple[Tally, FinishedCondition | None]:
        key = key_of(job)
        # Of the released pods, those are kept that the cache shows with the finalizer.
        if released := self._released.pop(key, frozenset()):
            tracked = {pod.metadata.uid for pod in pods if has_finalizer(pod)}
            self._add_released(key, released & tracked)
        return evaluate(
            job,
            pods,
            now,
            released=self._released.get(key, frozenset()),
            deleted_surplus=self._expectations.awaited_deletions(key),
            backoff=self._backoffs.get(key),
            read=partial(self._indexes.read, key),
        )

    def _add_released(self, key: str, uids: frozenset[str]) -> None:
        if uids:
            self._released[key] = self._released.get(key, frozenset()) | uids

    # When to look again.

    def _deadline(self, job: Job) -> float | None:
        deadline = seconds_to_deadline(job, self.clock.now())
        return None if deadline is None else max(deadline, 0.0)

    def _next_change(
        self, job: Job, finished: FinishedCondition | None, plan: PodPlan | None
    ) -> float | None:
        """Return the seconds until the deadline, or the end of the pods' backoff."""
        deadline = self._deadline(job) if finished is None else None
        wait = 0.0 if plan is None else plan.wait
        return earliest(deadline, max(wait, BATCH_PERIOD) if wait else None)

    async def _see_change(self, job: Job, error: Exception) -> None:
        """Wait for the cache after a refusal that shows that the job has changed."""
        if not isinstance(error, (errors.Conflict, errors.NotFound)):
            return
        if errors.is_about(error, job.metadata.name):
            await self._reads.wait_for_cache(job)

    # The number of pods.

    async def _manage_job(
        self, job: Job, tally: Tally, plan: PodPlan | None
    ) -> PodWrites:
        # The plan is `None` if the number of pods must stay. A gang is found by the job
        # as it is stored.
        if plan is None:
            return PodWrites()
        group = await self._gangs.group_of(job, tally.pods)
        if plan.delete:
            return await self._delete_surplus(tally.job, plan.delete)
        if plan.create:
            return await self._create(tally, plan, group)
        return PodWrites(decided=True)

    async def _create(self, tally: Tally, plan: PodPlan, group: str) -> PodWrites:
        job, key = tally.job, key_of(tally.job)
        bodies = pod_bodies(tally, plan, group)
        tried = created = 0

        async def create() -> None:
            nonlocal tried, created
            tried += 1
            await self._pod_control.create(metadata_of(PODS), job, next(bodies))
            created += 1

        self._expectations.expect(key, plan.create)
        failure = await self._create_pods(key, plan.create, create)
        self._metrics.pods_created(tally, created, tried - created)
        return PodWrites(decided=True, created=created, failure=failure)

    async def _delete_surplus(self, job: Job, pods: Sequence[Pod]) -> PodWrites:
        # Without the finalizer these pods are not counted. One that has ended meanwhile
        # must be counted, so it keeps its finalizer (deleteJobPods).
        key = key_of(job)

        async def delete_one(pod: Pod) -> None:
            try:
                if has_finalizer(pod):
                    await remove_finalizer(self.client, pod, unless_changed=True)
                await self._delete_pod(job, pod)
            except Exception:
                self._expectations.deletion_settled(key, pod.metadata.uid)
                raise

        self._expectations.expect(key, deletions={pod.metadata.uid for pod in pods})
        deleted, failure = await at_once(pods, delete_one)
        return PodWrites(decided=True, deleted=deleted, failure=failure)

    async def _delete_pod(self, job: Job, pod: Pod) -> None:
        try:
            await self._pod_control.delete(job, pod)
        except errors.NotFound as error:
            if not errors.is_about(error, pod.metadata.name):
                raise
            self._expectations.deletion_settled(key_of(job), pod.metadata.uid)

    # The status, and the finalizers.

    async def _track(
        self, tally: Tally, writes: PodWrites, finished: FinishedCondition | None
    ) -> None:
        """Raise a failure of pods at the end (trackJobStatusAndRemoveFinalizers)."""
        key = key_of(tally.job)
        self._note_indexes(tally)
        now = self.clock.now()
        status, mentions = first_status(
            tally, writes, finished, now, keeps_start=self._keeps_start
        )
        job = await self._write_status(tally.job, status)
        self._backoffs[key] = tally.backoff
        for action, count in mentions.actions.items():
            self._metrics.policy.labels(action).inc(count)
        done, failure = await at_once(
            mentions.released, partial(remove_finalizer, self.client)
        )
        released = frozenset(pod.metadata.uid for pod in done)
        self._add_released(key, released)
        tracked = {pod.metadata.uid for pod in tally.tracked} - released
        status = count_released(job.status, tracked)
        if failure is None and mentions.is_whole:
            status = with_final_condition(job, status, finished, self.clock.now())
        job = await self._write_status(job, status)
        if is_finished(job):
            self._finished[key] = job.metadata.uid
        if (failure := failure or writes.failure) is not None:
            raise failure

    def _note_indexes(self, tally: Tally) -> None:
        job = tally.job
        if not is_indexed(job):
            return
        for indexes in (tally.completed, tally.failed_indexes):
            if indexes is not None:
                key, count = key_of(job), index_count(job)
                self._indexes.note(key, indexes.format(), count, indexes)

    async def _write_status(self, job: Job, status: JobStatus) -> Job:
        """Write the status if it differs; return the job as stored."""
        if status == job.status:
            return job
        stored = await self.client.update(JOBS, replace(job, status=status), "status")
        read = partial(self._indexes.read, key_of(job))
        self._metrics.counted(job, job.status, status, read)
        self._record_conditions(stored, job.status, status)
        return stored

    def _record_conditions(self, job: Job, old: JobStatus, new: JobStatus) -> None:
        event = partial(self.recorder.event, JOBS, job)
        mode = completion_mode(job)
        for condition in new.conditions or ():
            if condition in (old.conditions or ()):
                continue
            if condition.type == SUSPENDED:
                reason = "Suspended" if condition.status == "True" else "Resumed"
                event(NORMAL, reason, condition.message)
            elif condition.type == FAILED:
                event(WARNING, condition.reason, condition.message)
                self._metrics.finished.labels(mode, "failed", condition.reason).inc()
            elif condition.type == COMPLETE:
                wanted = job.spec.completions
                if wanted is not None and new.succeeded > wanted:
                    event(WARNING, "TooManySucceededPods", _TOO_MANY)
                event(NORMAL, "Completed", "Job completed")
                finished = self._metrics.finished
                finished.labels(mode, "succeeded", condition.reason).inc()


def _selector_of(job: Job) -> Selector:
    try:
        return compile_selector(job.spec.selector)
    except SelectorError as error:
        msg = f"the selector of the job cannot be used: {error}"
        raise SyncError(msg) from error
