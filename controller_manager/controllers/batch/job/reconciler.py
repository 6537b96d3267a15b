"""Handlers and sync of the job controller (job_controller.go)."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from controller_manager.api.batch.v1 import JOBS, Job
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import is_deleting, key_of, labels_of
from controller_manager.api.resource import AnyResource
from controller_manager.api.selectors import (
    Selector,
    SelectorError,
    compile_selector,
    format_selector,
)
from controller_manager.client.client import ListOptions
from controller_manager.client.errors import Conflict, NotFound, is_about
from controller_manager.client.events import WARNING
from controller_manager.control.claims import Claimer
from controller_manager.control.expectations import Expectations, State
from controller_manager.control.takeover import Takeover
from controller_manager.controllers.batch.job.apply import JobApplier
from controller_manager.controllers.batch.job.assessment import (
    FINALIZER,
    NO_BACK_OFF,
    Assessment,
    assess,
    has_finalizer,
    is_uncounted,
)
from controller_manager.controllers.batch.job.back_off import BackOff
from controller_manager.controllers.batch.job.conditions import is_finished
from controller_manager.controllers.batch.job.gates import READS_OWN_WRITES
from controller_manager.controllers.batch.job.metrics import (
    RECONCILING,
    JobMetrics,
    action_of,
)
from controller_manager.controllers.batch.job.options import JobOptions
from controller_manager.controllers.batch.job.orphans import (
    FIRST_RETRY,
    LAST_RETRY,
    OrphanPods,
)
from controller_manager.controllers.batch.job.plan import Plan, Wait, plan_pods
from controller_manager.controllers.batch.job.spec import (
    INDEXED,
    NON_INDEXED,
    completion_mode,
    external_manager,
)
from controller_manager.controllers.batch.job.target import (
    Target,
    completed,
    find_target,
    seconds_to_deadline,
)
from controller_manager.controllers.batch.job.tracking import (
    Activity,
    active_after,
    finish,
    settle,
    started,
    tally,
)
from controller_manager.informers.informer import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import (
    DONE,
    Done,
    Outcome,
    Requeue,
    SyncError,
)
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Owns
from controller_manager.workqueue.ratelimiters import Backoff, ExponentialBackoff

BATCH_PERIOD: Final = 1.0
"""Seconds from a change of a pod or a status until the sync: many changes cause one."""

_UNSEEN_RECHECK: Final = 5.0
"""Seconds until the next sync while the cache does not show all writes."""


def init_job_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (newJobController)."""
    reconciler = JobReconciler(context)
    return WorkerGroup(reconciler.make_workers(), reconciler.orphans.make_workers())


def _batched_unless_changed(old: Job, new: Job) -> float:
    """Return the delay of an update: a new spec is synced at once."""
    same = old.metadata.generation == new.metadata.generation
    return BATCH_PERIOD if same else 0.0


class _Sync(Struct, frozen=True):
    """One sync: the job as assessed, what its pods need, and what it becomes."""

    assessment: Assessment
    target: Target | None
    plan: Plan
    is_decided: bool
    """Whether the number of pods may be changed."""


class JobReconciler(Reconciler[Job]):
    """Runs the pods of jobs, and counts those that have ended."""

    watches = (
        For(JOBS, update_delay=_batched_unless_changed),
        Owns(PODS, delay=BATCH_PERIOD),
    )
    queue_name = "job"

    def __init__(self, context: ControllerContext) -> None:
        """Take the context, and watch jobs and pods."""
        super().__init__(context)
        self.workers = context.config.of(JobOptions).concurrent_syncs
        self.reads_own_writes = context.config.features.is_enabled(READS_OWN_WRITES)
        self._pods = self.lister(PODS)
        self._metrics = context.metrics.of(JobMetrics)
        self._expectations = Expectations(context.clock)
        # A job must not run twice, so also a manager without an election looks at the
        # API server before it writes for a job that is older than this process.
        self._takeover = Takeover(context.server_clock, elected=True)
        self._applier = JobApplier(
            context.client, context.recorder, self._expectations, self._metrics
        )
        self._claimer = Claimer(context.client, JOBS, PODS, FINALIZER, is_uncounted)
        self._back_offs: dict[str, BackOff] = {}
        self._released: dict[str, frozenset[str]] = {}
        """The pods without a finalizer that the cache may show with it: their uids."""
        self._gone: dict[str, str] = {}
        """Jobs that are gone on the API server but still cached: the uid of each, and
        the resource version that is cached."""
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
        """Note that this process begins to lead."""
        self._takeover.start_leading()

    def deleted(self, obj: Job) -> None:
        """Drop the state of a job, so that a new one of its name starts afresh."""
        self.forget(key_of(obj))
        self._gone.pop(obj.metadata.uid, None)

    def forget(self, key: str) -> None:
        """Drop the state of a key whose job is gone or finished."""
        self._expectations.forget(key)
        self._takeover.forget(key)
        self._back_offs.pop(key, None)
        self._released.pop(key, None)

    def dependent_added(self, key: str, obj: Pod) -> None:  # noqa: ARG002 - any pod
        """Expect one creation less."""
        self._expectations.creations_settled(key)

    def dependent_gone(self, key: str, obj: Pod) -> None:
        """Stop to expect the deletion of this pod."""
        self._expectations.deletion_settled(key, obj.metadata.uid)

    def is_known_gone(self, obj: Job) -> bool:
        """Tell whether the API server has said that this job is gone."""
        return self._gone.get(obj.metadata.uid) == obj.metadata.resource_version

    def stale(self, resource: AnyResource) -> None:
        """Count a sync that waits for a cache, if upstream's gate is enabled."""
        if self.reads_own_writes:
            self._metrics.skipped(resource.group, resource.plural)

    # The sync.

    async def reconcile(self, job: Job) -> Outcome:
        """Create, delete and count the pods of a job that has not finished."""
        if external_manager(job) is not None:
            return DONE
        if is_finished(job):
            self.forget(key_of(job))
            return DONE
        if completion_mode(job) not in (INDEXED, NON_INDEXED):
            message = "Skipped Job sync because completion mode is unknown"
            self.recorder.event(JOBS, job, WARNING, "UnknownCompletionMode", message)
            return DONE
        begun = self.clock.monotonic()
        action, failed = RECONCILING, True
        try:
            sync = await self._look(job)
            if isinstance(sync, Requeue):
                failed = False
                return sync
            if sync.is_decided:
                action = action_of(sync.plan)
            outcome = await self._act(sync)
            failed = False
        except (Conflict, NotFound) as error:
            await self._check_job(job, error)
            raise
        finally:
            seconds = self.clock.monotonic() - begun
            self._metrics.synced(job, action, seconds, failed=failed)
        return outcome

    async def _look(self, job: Job) -> _Sync | Requeue:
        """Claim the pods of a job, and decide what it needs."""
        key, now = key_of(job), self.clock.now()
        selector = _selector_of(job)
        if self.reads_own_writes:
            self._expectations.cache_caught_up(key)
        expected = self._expectations.state(key)
        if expected is State.UNKNOWN:
            return await self._read_api_server(job, selector)
        pods = await self._claim(job, selector)
        assessment = assess(
            started(job, now),
            pods,
            released=self._still_shown(key, pods),
            back_off=self._back_offs.get(key, NO_BACK_OFF),
        )
        target = find_target(assessment, now)
        may_change = expected is State.FULFILLED and not is_deleting(job)
        is_decided = target is None and may_change
        plan = plan_pods(assessment, now) if is_decided else None
        news = plan is not None or target is not None or assessment.has_ended_pods
        if news and self._takeover.must_recheck(job):
            return await self._read_api_server(job, selector)
        return _Sync(assessment, target, plan, is_decided)

    async def _act(self, sync: _Sync) -> Outcome:
        """Change the number of pods, then count those that have ended."""
        assessment, target = sync.assessment, sync.target
        job, key = assessment.job, key_of(assessment.job)
        if target is not None:
            activity = await self._applier.delete_active(assessment)
            seen = self._expectations.state(key) is State.FULFILLED
            if not seen or active_after(assessment, activity):
                target = None  # some pods may still run; they are not counted yet
        else:
            activity = Activity()
            if sync.is_decided:
                activity = await self._applier.carry_out(assessment, sync.plan)
            target = completed(assessment, active_after(assessment, activity))
        await self._track(assessment, activity, target)
        if activity.failure is not None:
            raise activity.failure
        return Done(self._next_look(job, sync))

    async def _track(
        self, assessment: Assessment, activity: Activity, target: Target | None
    ) -> None:
        """Write the first status, remove finalizers, and write the second status."""
        key, now = key_of(assessment.job), self.clock.now()
        count = tally(assessment, activity, target, now)
        job = await self._applier.write_status(assessment.job, count.status)
        self._back_offs[key] = assessment.back_off
        self._metrics.failures_handled(count.actions)
        released, failure = await self._applier.release(count.released)
        if released:
            self._released[key] = self._released.get(key, frozenset()) | released
        tracked = {pod.metadata.uid for pod in assessment.tracked} - released
        status = settle(job.status, tracked)
        if failure is None and count.is_whole:
            status = finish(job, status, target, self.clock.now())
        await self._applier.write_status(job, status)
        if failure is not None:
            raise failure

    def _next_look(self, job: Job, sync: _Sync) -> float | None:
        """Return the seconds until the next sync, `None` for no such sync.

        The watch may never show a write of this sync, so a sync must come without an
        event.
        """
        waits = []
        if self._expectations.state(key_of(job)) is not State.FULFILLED:
            waits.append(_UNSEEN_RECHECK)
        if isinstance(sync.plan, Wait):
            waits.append(max(sync.plan.seconds, BATCH_PERIOD))
        deadline = seconds_to_deadline(job, self.clock.now())
        if deadline is not None and sync.target is None:
            waits.append(max(deadline, 0.0))
        return min(waits, default=None)

    async def _claim(self, job: Job, selector: Selector) -> list[Pod]:
        orphans = self._pods.orphans(job.metadata.namespace, selector)
        owned = self._pods.controlled_by(job)
        return await self._claimer.claim(job, selector, (*owned, *orphans))

    def _still_shown(self, key: str, pods: Iterable[Pod]) -> frozenset[str]:
        """Return the released pods that the cache still shows with the finalizer."""
        released = self._released.pop(key, frozenset())
        if released:
            tracked = {pod.metadata.uid for pod in pods if has_finalizer(pod)}
            released &= tracked
        if released:
            self._released[key] = released
        return released

    # The API server, where the cache may be stale.

    async def _read_api_server(self, job: Job, selector: Selector) -> Requeue:
        """Record the versions that the caches must reach before the next writes.

        A write got no response, was not seen for five minutes, or may have been made
        by a former leader. A quorum read returns the pods that exist, so it shows the
        result of that write.
        """
        key, metadata = key_of(job), job.metadata
        consistency = self.context.consistency
        stored = await self.client.get(JOBS, metadata.namespace, metadata.name)
        consistency.record(key, JOBS, stored)
        options = ListOptions(label_selector=format_selector(job.spec.selector))
        there: set[str] = set()
        async for page in self.client.list_all(PODS, metadata.namespace, options):
            for pod in page.items:
                if selector.matches(labels_of(pod)):
                    consistency.record(key, PODS, pod)
                    there.add(pod.metadata.uid)
        # A pod that is gone had lost its finalizer, so it was mentioned or counted.
        cached = {pod.metadata.uid for pod in self._pods.controlled_by(job)}
        self._released[key] = self._released.get(key, frozenset()) | (cached - there)
        self._expectations.forget(key)
        self._takeover.rechecked(key)
        self.logger.v(2).info("The cache may be stale, read from the API server")
        return Requeue(0.0, "the cache may be stale")

    async def _check_job(self, job: Job, error: Conflict | NotFound) -> None:
        """After a refusal about the job itself, read the job from the API server.

        Its key then waits until the cache shows what is stored. A job that is gone is
        not synced any more; otherwise pods would be created for it as long as the
        cache is stale.
        """
        metadata = job.metadata
        if not is_about(error, metadata.name):
            return
        try:
            stored = await self.client.get(JOBS, metadata.namespace, metadata.name)
        except NotFound as missing:
            if is_about(missing, metadata.name):
                self._mark_gone(job)
            return
        if stored.metadata.uid != metadata.uid:
            self._mark_gone(job)
        self.context.consistency.record(key_of(job), JOBS, stored)

    def _mark_gone(self, job: Job) -> None:
        cached = self.objects.by_key(key_of(job))
        if cached is not None and cached.metadata.uid == job.metadata.uid:
            self._gone[job.metadata.uid] = cached.metadata.resource_version


def _selector_of(job: Job) -> Selector:
    """Return the selector; raises SyncError for one that cannot be evaluated."""
    try:
        return compile_selector(job.spec.selector)
    except SelectorError as error:
        msg = f"the selector of the job cannot be used: {error}"
        raise SyncError(msg) from error
