"""Watches, sync and writes of the cron job controller (cronjob_controllerv2.go)."""

import os
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Histogram

from controller_manager.api.batch.v1 import CRON_JOBS, JOBS, CronJob, CronJobStatus, Job
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.meta import is_controlled_by, is_deleting, key_of
from controller_manager.api.scalars import format_time, parse_time
from controller_manager.client.events.recorder import NORMAL, WARNING
from controller_manager.client.rest.client import DeleteOptions, PropagationPolicy
from controller_manager.client.rest.errors import (
    AlreadyExists,
    APIError,
    Conflict,
    NotFound,
    TransportError,
    gravest,
    is_about,
    is_namespace_terminating,
)
from controller_manager.control.expectations import Takeover, live
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import (
    DONE,
    Done,
    Failed,
    Outcome,
    SyncError,
    failure_of,
)
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Owns
from controller_manager.schedules.fields import ScheduleError
from controller_manager.schedules.zones import local_zone

from . import CronJobOptions, schedule
from .jobs import (
    ActiveJobs,
    Known,
    active_jobs,
    end_of,
    job_body,
    job_name,
    jobs_to_look_up,
    reference_to_job,
    surplus,
    unlisted,
)

_FORBID: Final = "Forbid"
_REPLACE: Final = "Replace"
_ACTIVE: Final = (
    "Not starting job because prior execution is running and concurrency policy is "
    "Forbid"
)
_ALREADY_ACTIVE: Final = (NORMAL, "JobAlreadyActive", _ACTIVE)

_SKEW_SECONDS: Final = tuple(2**power for power in range(10))


def _creation_skew(registry: CollectorRegistry) -> Histogram:
    return Histogram(
        "cronjob_controller_job_creation_skew_duration_seconds",
        "Time between when a cronjob is scheduled to be run, and when the "
        "corresponding job is created",
        buckets=_SKEW_SECONDS,
        registry=registry,
    )


class CronJobReconciler(Reconciler[CronJob]):
    """Creates a job at each time of a cron job's schedule."""

    queue_name = "cronjob"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.workers = context.config.of(CronJobOptions).concurrent_syncs
        self._local = local_zone(os.environ)
        self._skew = context.metrics.of(_creation_skew)
        self._jobs = self.lister(JOBS)
        self._takeover = Takeover(
            context.server_clock,
            elected=context.config.generic.leader_election.leader_elect,
        )
        self._deleted_jobs: dict[str, set[str]] = {}
        """The uids of deleted jobs that the cache still shows, by cron job.

        Without them, a job that was just deleted would look like one that is not
        listed.
        """

    def _update_delay(self, old: CronJob, new: CronJob) -> float:
        # A changed schedule starts no run at once, even if a run of the past now looks
        # missed (updateCronJob). With a time zone that does not exist no run can start,
        # and the sync that reports it does not wait.
        before, after = old.spec, new.spec
        if (before.schedule, before.time_zone) == (after.schedule, after.time_zone):
            return 0.0
        try:
            seconds = (
                schedule.seconds_until_next(new, self._local, self.clock.now()) or 0.0
            )
            return 0.0 if schedule.zone_problem(new) is not None else seconds
        except ScheduleError:
            message = f"unparseable schedule for cronjob: {new.spec.schedule}"
            reason = "UnParseableCronJobSchedule"
            self.recorder.event(CRON_JOBS, new, WARNING, reason, message)
            return 0.0

    watches = (For(CRON_JOBS, update_delay=_update_delay), Owns(JOBS))

    def starting(self) -> None:
        """Note that this process starts to lead."""
        self._takeover.start_leading()

    def dependent_gone(self, key: str, obj: Job) -> None:
        """Note that the cache shows the deletion of a job."""
        self._show_again(key, obj.metadata.uid)

    def deleted(self, obj: CronJob) -> None:
        """Drop the state of a cron job, so that a new one of its name starts anew."""
        self.forget(key_of(obj))

    def forget(self, key: str) -> None:
        """Drop the state of a cron job that is gone."""
        self._deleted_jobs.pop(key, None)
        self._takeover.forget(key)

    # The sync.

    async def reconcile(self, cron_job: CronJob) -> Outcome:
        """Start the run that is due, and keep status and history up to date (sync)."""
        known = Known(
            cron_job,
            self._shown_jobs(cron_job),
            may_be_behind=self._takeover.must_recheck(cron_job),
        )
        try:
            return await self._sync_cron_job(known)
        except Exception as error:  # noqa: BLE001 - the worker reports it
            return Failed(error, self._next_run(cron_job))

    async def _sync_cron_job(self, known: Known) -> Outcome:
        """Sync; begin anew with what the API server has said (syncCronJob)."""
        if not known.is_fresh and any(unlisted(known)):
            # The list of active jobs may be older than the cache of jobs, or newer.
            return await self._reread(known)
        known = await self._look_for_active(known)
        known = await self._delete_jobs(known, map(reference_to_job, surplus(known)))
        cron_job, found = known.cron_job, active_jobs(known)
        if is_deleting(cron_job):
            return await self._finish(known, found)
        if (problem := schedule.zone_problem(cron_job)) is not None:
            return await self._finish(known, found, problem)
        if cron_job.spec.suspend:
            return await self._finish(known, found)
        now = self.clock.now()
        plan = schedule.plan_runs(cron_job, self._local, now)
        seen = replace(found, events=(*found.events, *plan.events))
        wait = plan.requeue_after
        if plan.due is None:
            return await self._finish(known, seen, requeue_after=wait)
        name = job_name(cron_job, plan.due)
        if any(each.name == name for each in known.active()):
            return await self._finish(known, seen, requeue_after=wait)
        if any(job.metadata.name == name for job in known.jobs):
            return await self._finish(known, seen, requeue_after=wait, last=plan.due)
        if known.may_be_behind:
            return await self._search(known, now)
        policy = cron_job.spec.concurrency_policy
        if policy == _FORBID and found.active:
            return await self._finish(known, seen, _ALREADY_ACTIVE, requeue_after=wait)
        if policy == _REPLACE and found.active:
            return await self._replace_active(known, found)
        for event in seen.events:
            self._record(cron_job, event)
        return await self._start(known, replace(found, events=()), plan.due)

    async def _reread(self, known: Known) -> Outcome:
        """Begin anew with the stored cron job; do nothing if it is gone."""
        fresh = await self._read(known.cron_job)
        if fresh is None:
            return DONE
        return await self._sync_cron_job(replace(known, cron_job=fresh, is_fresh=True))

    async def _look_for_active(self, known: Known) -> Known:
        """Ask the API server for active jobs that only the list or the cache has."""
        cron_job = known.cron_job
        there = dict(known.still_there)
        for each in jobs_to_look_up(known):
            if each.uid in there:
                continue
            job = await self._find(cron_job, each.name)
            # While a cron job is deleted, the garbage collector may have released it.
            there[each.uid] = (
                job is not None
                and job.metadata.uid == each.uid
                and (is_controlled_by(job, cron_job) or is_deleting(cron_job))
            )
        return replace(known, still_there=there)

    async def _search(self, known: Known, now: datetime) -> Outcome:
        # The status has the time of the last run. A former leader's unlisted jobs of
        # later runs would be active beside the new job; they are found by their names.
        if not known.is_fresh:
            return await self._reread(known)
        cron_job = known.cron_job
        found = []
        if cron_job.spec.concurrency_policy in (_FORBID, _REPLACE):
            runs = schedule.recent_runs(cron_job, self._local, now)
            names = dict.fromkeys(job_name(cron_job, run) for run in runs)
            cached = {job.metadata.name for job in known.jobs}
            unknown = (each for each in names if each not in cached)
            found = [await self._find(cron_job, each) for each in unknown]
        self._takeover.rechecked(key_of(cron_job))
        own = (job for job in found if job and is_controlled_by(job, cron_job))
        known = replace(known, jobs=(*known.jobs, *own), may_be_behind=False)
        return await self._sync_cron_job(known)

    async def _replace_active(self, known: Known, found: ActiveJobs) -> Outcome:
        """Delete the active jobs; the run starts once all of them are deleted."""
        if any(each.uid not in known.deletions for each in found.active):
            known = await self._delete_jobs(known, found.active)
            return await self._sync_cron_job(known)
        left = found.active[0]
        error = SyncError(f"could not replace job {left.namespace}/{left.name}")
        failures = (known.deletions[each.uid] for each in found.active)
        error.__cause__ = gravest(each for each in failures if each is not None)
        wait = self._next_run(known.cron_job)
        return await self._finish(known, found, requeue_after=wait, failure=error)

    async def _start(
        self, known: Known, found: ActiveJobs, scheduled: datetime
    ) -> Outcome:
        # The job may exist already: a former leader may have created it.
        cron_job, namespace = known.cron_job, known.cron_job.metadata.namespace
        body = job_body(cron_job, scheduled)
        try:
            job = await self.client.create_json(JOBS, namespace, body)
        except AlreadyExists as error:
            existing = await self._find(cron_job, job_name(cron_job, scheduled))
            if existing is None:
                return await self._not_started(known, found, error)
            if not is_controlled_by(existing, cron_job):
                return await self._name_taken(known, found, existing)
            job = existing
        except (APIError, TransportError) as error:
            return await self._not_started(known, found, error)
        else:
            if created := job.metadata.creation_timestamp:
                late = parse_time(created) - scheduled
                self._skew.observe(late.total_seconds())
            message = f"Created job {job.metadata.name}"
            self._record(cron_job, (NORMAL, "SuccessfulCreate", message))
        is_listed = any(each.uid == job.metadata.uid for each in found.active)
        if end_of(job) is None and not is_listed:
            found = replace(found, active=(*found.active, reference_to_job(job)))
        wait = self._next_run(cron_job, scheduled)
        return await self._finish(known, found, requeue_after=wait, last=scheduled)

    async def _not_started(
        self, known: Known, found: ActiveJobs, error: Exception
    ) -> Outcome:
        wait = self._next_run(known.cron_job)
        if is_namespace_terminating(error):
            return await self._finish(known, found, requeue_after=wait)
        event = (WARNING, "FailedCreate", f"Error creating job: {error}")
        return await self._finish(
            known, found, event, requeue_after=wait, failure=error
        )

    async def _name_taken(self, known: Known, found: ActiveJobs, job: Job) -> Outcome:
        message = (
            f'Error creating job: jobs.batch "{job.metadata.name}" already exists, '
            "and this cron job does not control it"
        )
        event = (WARNING, "FailedCreate", message)
        wait = self._next_run(known.cron_job)
        return await self._finish(known, found, event, requeue_after=wait)

    async def _finish(
        self,
        known: Known,
        found: ActiveJobs,
        *events: schedule.CronJobEvent,
        requeue_after: float | None = None,
        last: datetime | None = None,
        failure: Exception | None = None,
    ) -> Outcome:
        """Record events and write the status; retry after a failure."""
        for event in (*found.events, *events):
            self._record(known.cron_job, event)
        old = known.cron_job.status
        status = CronJobStatus(
            active=found.active or None,
            last_schedule_time=format_time(last) if last else old.last_schedule_time,
            last_successful_time=found.last_successful_time,
        )
        writes = self._write_status(known.cron_job, status)
        if (failed := await failure_of(writes, requeue_after)) is not None:
            return failed
        errors = (each for each in known.deletions.values() if each is not None)
        if (failure := failure or next(errors, None)) is not None:
            return Failed(failure, requeue_after)
        return Done(requeue_after)

    def _next_run(
        self, cron_job: CronJob, last: datetime | None = None
    ) -> float | None:
        # `last` is the time of the last run if it differs from the one in the status.
        if last is not None:
            status = replace(cron_job.status, last_schedule_time=format_time(last))
            cron_job = replace(cron_job, status=status)
        try:
            return schedule.seconds_until_next(cron_job, self._local, self.clock.now())
        except ScheduleError:
            return None

    # Reads and writes.

    def _shown_jobs(self, cron_job: CronJob) -> tuple[Job, ...]:
        """Return the cached jobs of a cron job without deleted ones, sorted."""
        deleted = self._deleted_jobs.get(key_of(cron_job), ())
        jobs = self._jobs.controlled_by(cron_job)
        shown = (job for job in jobs if job.metadata.uid not in deleted)
        return tuple(sorted(shown, key=key_of))

    def _show_again(self, key: str, uid: str) -> None:
        """Note that the cache shows a deletion, or that the deletion has failed."""
        uids = self._deleted_jobs.get(key, set())
        uids.discard(uid)
        if not uids:
            self._deleted_jobs.pop(key, None)

    async def _read(self, cron_job: CronJob) -> CronJob | None:
        namespace, name = cron_job.metadata.namespace, cron_job.metadata.name
        fresh = await live(self.client, CRON_JOBS, namespace, name)
        is_same = fresh is not None and fresh.metadata.uid == cron_job.metadata.uid
        return fresh if is_same else None

    async def _find(self, cron_job: CronJob, name: str) -> Job | None:
        return await live(self.client, JOBS, cron_job.metadata.namespace, name)

    async def _delete_jobs(
        self, known: Known, jobs: Iterable[ObjectReference]
    ) -> Known:
        """Delete jobs that this sync has not tried to delete, one after the other."""
        deletions = dict(known.deletions)
        for job in jobs:
            if job.uid not in deletions:
                deletions[job.uid] = await self._delete(known.cron_job, job)
        return replace(known, deletions=deletions)

    async def _delete(
        self, cron_job: CronJob, job: ObjectReference
    ) -> Exception | None:
        # A conflict does not prove that the job is gone. It may mean that another job
        # has the name now, but a webhook may also answer with a conflict: the next sync
        # reads the cache again.
        key, namespace = key_of(cron_job), cron_job.metadata.namespace
        cached = self._jobs.get(namespace, job.name)
        if cached is not None and cached.metadata.uid == job.uid:
            # The watch may be faster than the answer.
            self._deleted_jobs.setdefault(key, set()).add(job.uid)
        options = DeleteOptions(
            propagation_policy=PropagationPolicy.BACKGROUND, uid=job.uid
        )
        try:
            await self.client.delete(JOBS, namespace, job.name, options)
        except (APIError, TransportError) as error:
            if isinstance(error, NotFound) and is_about(error, job.name):
                return None
            self._show_again(key, job.uid)
            event = (WARNING, "FailedDelete", f"Deleted job: {error}")
            self._record(cron_job, event)
            return error
        event = (NORMAL, "SuccessfulDelete", f"Deleted job {job.name}")
        self._record(cron_job, event)
        return None

    async def _write_status(self, known: CronJob, status: CronJobStatus) -> None:
        # If another client has changed the cron job but not its status, the status is
        # written once more: otherwise it would lack a job that was just created.
        if status == _as_written(known.status):
            return
        try:
            await self._update_status(known, status)
        except Conflict:
            fresh = await self._read(known)
            if fresh is None:
                return
            if _as_written(fresh.status) != _as_written(known.status):
                raise
            await self._update_status(fresh, status)
        except NotFound as error:
            if not is_about(error, known.metadata.name):
                raise

    async def _update_status(self, cron_job: CronJob, status: CronJobStatus) -> None:
        changed = replace(cron_job, status=status)
        await self.client.update_for_metadata(CRON_JOBS, changed, "status")

    def _record(self, cron_job: CronJob, event: schedule.CronJobEvent) -> None:
        self.recorder.event(CRON_JOBS, cron_job, *event)


def _as_written(status: CronJobStatus) -> CronJobStatus:
    return replace(status, active=status.active or None)
