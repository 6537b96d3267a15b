"""Watches, caches and writes of the cron job controller.

Upstream: pkg/controller/cronjob of v1.36 (cronjob_controllerv2.go). `decide` makes the
decision of a sync, and the applier carries it out.
"""

import os
from typing import assert_never

from msgspec.structs import replace

from controller_manager.api.batch.v1 import CRON_JOBS, JOBS, CronJob, CronJobStatus, Job
from controller_manager.api.meta import is_deleting, key_of
from controller_manager.api.owners import is_controlled_by
from controller_manager.api.times import parse_time
from controller_manager.client.client import Client, DeleteOptions, PropagationPolicy
from controller_manager.client.errors import (
    AlreadyExists,
    APIError,
    Conflict,
    NotFound,
    TransportError,
    is_about,
    is_namespace_terminating,
)
from controller_manager.client.events import WARNING, EventRecorder
from controller_manager.control.decision import decide_and_apply
from controller_manager.control.takeover import Takeover
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import Failed, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Owns
from controller_manager.schedules.errors import ScheduleError
from controller_manager.schedules.zones import local_zone

from .actions import (
    Action,
    CreateJob,
    CronJobEvent,
    DeleteJob,
    LookForActive,
    ReadCronJob,
    RecordEvent,
    SearchRuns,
    normal,
    warning,
)
from .decide import decide
from .jobs import job_body, job_name
from .metrics import CronJobMetrics
from .options import CronJobOptions
from .schedule import seconds_until_next, zone_problem
from .tracker import CronJobTracker
from .view import Created, CreationFailed, NamespaceTerminating, NameTaken, View


class CronJobApplier:
    """Carries out actions one after the other; the view gets their results."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        metrics: CronJobMetrics,
        tracker: CronJobTracker,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._metrics = metrics
        self._tracker = tracker

    async def apply(self, view: View, action: Action) -> View:
        """Carry out one action; return the view with the result of the action.

        Raises the errors of the client, except those of creations and deletions: these
        are in the view.
        """
        match action:
            case RecordEvent(event):
                self._record(view, event)
                return view
            case ReadCronJob():
                return await self._read(view)
            case LookForActive(job):
                found = await self._find(view, job.name)
                there = found is not None and _is_own(found, job.uid, view.cron_job)
                return replace(view, still_there={**view.still_there, job.uid: there})
            case SearchRuns(names):
                return await self._search(view, names)
            case DeleteJob():
                return await self._delete(view, action)
            case CreateJob():
                return await self._create(view, action)
        assert_never(action)

    async def report(self, view: View, status: CronJobStatus) -> None:
        """Write the status, unless the cron job has it already.

        If another client has changed the cron job but not its status, the status is
        written once more: otherwise the status would lack a job that was just created.
        """
        known = view.cron_job
        if _as_stored(status) == _as_stored(known.status):
            return
        try:
            await self._write(known, status)
        except Conflict:
            fresh = await self._read(view)
            if fresh.is_gone:
                return
            if _as_stored(fresh.cron_job.status) != _as_stored(known.status):
                raise
            await self._write(fresh.cron_job, status)
        except NotFound as error:
            if not is_about(error, known.metadata.name):
                raise

    async def _write(self, cron_job: CronJob, status: CronJobStatus) -> None:
        changed = replace(cron_job, status=status)
        await self._client.update_for_metadata(CRON_JOBS, changed, "status")

    def _record(self, view: View, event: CronJobEvent) -> None:
        self._recorder.event(
            CRON_JOBS, view.cron_job, event.type, event.reason, event.message
        )

    async def _read(self, view: View) -> View:
        metadata = view.cron_job.metadata
        try:
            fresh = await self._client.get(CRON_JOBS, metadata.namespace, metadata.name)
        except NotFound as error:
            if not is_about(error, metadata.name):
                raise
            return replace(view, is_gone=True)
        if fresh.metadata.uid != metadata.uid:
            return replace(view, is_gone=True)
        return replace(view, cron_job=fresh, is_fresh=True)

    async def _find(self, view: View, name: str) -> Job | None:
        namespace = view.cron_job.metadata.namespace
        try:
            return await self._client.get(JOBS, namespace, name)
        except NotFound as error:
            if not is_about(error, name):
                raise
            return None

    async def _search(self, view: View, names: tuple[str, ...]) -> View:
        found = [await self._find(view, each) for each in names]
        jobs = (
            job
            for job in found
            if job is not None and is_controlled_by(job, view.cron_job)
        )
        self._tracker.note_search(view.cron_job)
        return replace(view, jobs=(*view.jobs, *jobs), searched=True)

    async def _delete(self, view: View, action: DeleteJob) -> View:
        """Delete the job with this uid; a job that is gone is not a failure."""
        options = DeleteOptions(
            propagation_policy=PropagationPolicy.BACKGROUND, uid=action.uid
        )
        namespace = view.cron_job.metadata.namespace
        # The watch may be faster than the answer.
        self._tracker.note_deletion(view.cron_job, action.name, action.uid)
        try:
            await self._client.delete(JOBS, namespace, action.name, options)
        except (APIError, TransportError) as error:
            if _is_gone(error, action.name):
                return view.with_deletion(action.uid, None)
            self._tracker.note_failure(view.cron_job, action.uid)
            self._record(view, warning("FailedDelete", f"Deleted job: {error}"))
            return view.with_deletion(action.uid, error)
        self._record(view, normal("SuccessfulDelete", f"Deleted job {action.name}"))
        return view.with_deletion(action.uid, None)

    async def _create(self, view: View, action: CreateJob) -> View:
        cron_job, scheduled = view.cron_job, action.scheduled
        namespace = cron_job.metadata.namespace
        body = job_body(cron_job, scheduled)
        try:
            job = await self._client.create_json(JOBS, namespace, body)
        except AlreadyExists as error:
            existing = await self._find(view, job_name(cron_job, scheduled))
            if existing is None:
                return replace(view, creation=CreationFailed(error))
            return replace(view, creation=NameTaken(existing, scheduled))
        except (APIError, TransportError) as error:
            if is_namespace_terminating(error):
                return replace(view, creation=NamespaceTerminating())
            return replace(view, creation=CreationFailed(error))
        if created := job.metadata.creation_timestamp:
            late = parse_time(created) - scheduled
            self._metrics.created(late.total_seconds())
        message = f"Created job {job.metadata.name}"
        self._record(view, normal("SuccessfulCreate", message))
        return replace(view, creation=Created(job, scheduled))


def _is_own(found: Job, uid: str, cron_job: CronJob) -> bool:
    """Tell whether the found job has this uid, and the cron job still owns it.

    While a cron job is deleted, the garbage collector may have released its jobs.
    """
    is_owner = is_controlled_by(found, cron_job) or is_deleting(cron_job)
    return found.metadata.uid == uid and is_owner


def _is_gone(error: Exception, name: str) -> bool:
    """Tell whether a deletion failed because the job is gone.

    A conflict does not prove that. It may mean that another job has the name now, but
    a webhook may also answer with a conflict: the next sync reads the cache again.
    """
    return isinstance(error, NotFound) and is_about(error, name)


def _as_stored(status: CronJobStatus) -> CronJobStatus:
    return replace(status, active=status.active or None)


class CronJobReconciler(Reconciler[CronJob]):
    """Creates a job at each time of a cron job's schedule."""

    queue_name = "cronjob"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.workers = context.config.of(CronJobOptions).concurrent_syncs
        self._local = local_zone(os.environ)
        takeover = Takeover(
            context.server_clock,
            elected=context.config.generic.leader_election.leader_elect,
        )
        self._tracker = CronJobTracker(self.lister(JOBS), takeover)
        self._applier = CronJobApplier(
            context.client,
            context.recorder,
            context.metrics.of(CronJobMetrics),
            self._tracker,
        )

    def _update_delay(self, old: CronJob, new: CronJob) -> float:
        """Return the seconds until the next run if the schedule has changed.

        A changed schedule starts no run at once, even if a run of the past now looks
        missed (updateCronJob). With a time zone that does not exist no run can start,
        and the sync that reports it does not wait.
        """
        if (old.spec.schedule, old.spec.time_zone) == (
            new.spec.schedule,
            new.spec.time_zone,
        ):
            return 0.0
        try:
            seconds = seconds_until_next(new, self._local, self.clock.now()) or 0.0
            return 0.0 if zone_problem(new) is not None else seconds
        except ScheduleError:
            message = f"unparseable schedule for cronjob: {new.spec.schedule}"
            reason = "UnParseableCronJobSchedule"
            self.recorder.event(CRON_JOBS, new, WARNING, reason, message)
            return 0.0

    watches = (For(CRON_JOBS, update_delay=_update_delay), Owns(JOBS))

    async def reconcile(self, cron_job: CronJob) -> Outcome:
        """Start the run that is due, and keep status and history up to date."""
        view = View(
            cron_job,
            tuple(self._tracker.shown_jobs(cron_job)),
            local=self._local,
            may_be_behind=self._tracker.takeover.must_recheck(cron_job),
        )
        try:
            return await decide_and_apply(
                view, decide, self._applier, self.clock, self.logger
            )
        except Exception as error:  # noqa: BLE001 - the worker reports it
            return Failed(error, self._next_run(cron_job))

    def _next_run(self, cron_job: CronJob) -> float | None:
        """Return the seconds until the next run, `None` if there is none."""
        try:
            return seconds_until_next(cron_job, self._local, self.clock.now())
        except ScheduleError:
            return None

    def starting(self) -> None:
        """Note that this process starts to lead."""
        self._tracker.takeover.start_leading()

    def dependent_gone(self, key: str, obj: Job) -> None:
        """Note that the cache shows the deletion of a job."""
        self._tracker.note_gone(key, obj.metadata.uid)

    def deleted(self, obj: CronJob) -> None:
        """Drop the state of a cron job, so that a new one of its name starts anew."""
        self.forget(key_of(obj))

    def forget(self, key: str) -> None:
        """Drop the state of a cron job that is gone."""
        self._tracker.forget(key)
