"""The decision of one sync of a cron job: view in, actions out.

The finished jobs to delete, beyond the history limits (cleanupFinishedJobs).
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from controller_manager.api.batch.v1 import COMPLETE, FAILED, CronJobStatus, Job
from controller_manager.api.meta import is_deleting
from controller_manager.api.owners import is_controlled_by
from controller_manager.api.times import format_time
from controller_manager.client.errors import gravest
from controller_manager.control.decision import Decision, Step
from controller_manager.runtime.outcome import SyncError

from .actions import (
    CreateJob,
    CronJobDecision,
    CronJobEvent,
    CronJobStep,
    DeleteJob,
    LookForActive,
    ReadCronJob,
    RecordEvent,
    SearchRuns,
    normal,
    warning,
)
from .jobs import (
    ActiveJobs,
    active_jobs,
    by_start,
    end_of,
    job_name,
    jobs_to_look_up,
    reference_to_job,
    unlisted,
)
from .schedule import Plan, plan_runs, recent_runs, seconds_until_next, zone_problem
from .view import (
    Created,
    Creation,
    CreationFailed,
    NamespaceTerminating,
    NameTaken,
    View,
)


def surplus(view: View) -> Iterator[Job]:
    """Yield the oldest finished jobs beyond the limits, succeeded ones first.

    Jobs that are being deleted do not count any more.
    """
    spec = view.cron_job.spec
    yield from _beyond(spec.successful_jobs_history_limit, COMPLETE, view)
    yield from _beyond(spec.failed_jobs_history_limit, FAILED, view)


def _beyond(limit: int | None, end: str, view: View) -> Iterator[Job]:
    if limit is None:
        return
    kept = [job for job in view.jobs if end_of(job) == end and not is_deleting(job)]
    kept.sort(key=by_start)
    yield from kept[: max(0, len(kept) - limit)]


def decide(view: View, now: datetime) -> CronJobStep | CronJobDecision:
    """Return the next step for a cron job, or the decision (sync and syncCronJob).

    A sync deletes finished jobs beyond the limits, brings the list of active jobs up
    to date, starts the latest run that was missed, and writes the status last.
    """
    if view.is_gone:
        return Decision()
    if (step := _read(view) or _clean_up(view)) is not None:
        return step
    found = active_jobs(view)
    if view.creation is not None:
        return finish_creation(view, view.creation, found, now)
    if is_deleting(view.cron_job):
        return final_decision(view, found)
    if (problem := zone_problem(view.cron_job)) is not None:
        return final_decision(view, found, problem)
    if view.cron_job.spec.suspend:
        return final_decision(view, found)
    return start_run(view, found, now)


def _read(view: View) -> CronJobStep | None:
    """Read the objects that the caches may not show yet, before any event about them.

    The list of active jobs may be older than the cache of jobs, or newer.
    """
    if not view.is_fresh and any(unlisted(view)):
        return Step((ReadCronJob(),))
    unknown = (
        each for each in jobs_to_look_up(view) if each.uid not in view.still_there
    )
    looks = tuple(map(LookForActive, unknown))
    return Step(looks) if looks else None


def _clean_up(view: View) -> CronJobStep | None:
    deletions = tuple(
        DeleteJob(job.metadata.name, job.metadata.uid)
        for job in surplus(view)
        if job.metadata.uid not in view.deletions
    )
    return Step(deletions) if deletions else None


_FORBID: Final = "Forbid"
_REPLACE: Final = "Replace"
_ALREADY_ACTIVE: Final = normal(
    "JobAlreadyActive",
    "Not starting job because prior execution is running and concurrency policy is "
    "Forbid",
)


def start_run(
    view: View, found: ActiveJobs, now: datetime
) -> CronJobStep | CronJobDecision:
    """Return the step that starts the run that is due, or a decision to wait."""
    cron_job = view.cron_job
    plan = plan_runs(cron_job, view.local, now)
    if plan.due is None:
        return _wait(view, found, plan)
    name = job_name(cron_job, plan.due)
    if any(each.name == name for each in view.active()):
        return _wait(view, found, plan)
    if any(job.metadata.name == name for job in view.jobs):
        return _wait(view, found, plan, last_run=plan.due)
    if view.may_be_behind and not view.searched:
        return _search(view, now)
    policy = cron_job.spec.concurrency_policy
    if policy == _FORBID and found.active:
        return _wait(view, found, plan, _ALREADY_ACTIVE)
    if policy == _REPLACE and found.active:
        return _replace_active(view, found, now)
    events = map(RecordEvent, (*found.events, *plan.events))
    return Step((*events, CreateJob(plan.due)))


def _search(view: View, now: datetime) -> CronJobStep:
    """Look for jobs of a former leader that the caches do not show yet.

    The status has the time of the last run. Unlisted jobs of later runs would be active
    beside the new job; they are found by their names.
    """
    if not view.is_fresh:
        return Step((ReadCronJob(),))
    if view.cron_job.spec.concurrency_policy not in (_FORBID, _REPLACE):
        return Step((SearchRuns(()),))
    runs = recent_runs(view.cron_job, view.local, now)
    known = {job.metadata.name for job in view.jobs}
    names = dict.fromkeys(job_name(view.cron_job, run) for run in runs)
    return Step((SearchRuns(tuple(each for each in names if each not in known)),))


def _replace_active(
    view: View, found: ActiveJobs, now: datetime
) -> CronJobStep | CronJobDecision:
    """Delete the active jobs; the run starts once all of them are deleted."""
    untried = [each for each in found.active if each.uid not in view.deletions]
    if untried:
        return Step(tuple(DeleteJob(each.name, each.uid) for each in untried))
    left = found.active[0]
    error = SyncError(f"could not replace job {left.namespace}/{left.name}")
    failures = (view.deletions[each.uid] for each in found.active)
    error.__cause__ = gravest(each for each in failures if each is not None)
    return replace(_wait(view, found, _following(view, now)), retry=error)


def finish_creation(
    view: View, creation: Creation, found: ActiveJobs, now: datetime
) -> CronJobDecision:
    """Return the decision after the creation of a run's job was tried.

    The events of this sync were recorded before the creation.
    """
    found = replace(found, events=())
    match creation:
        case Created(job=job, scheduled=scheduled):
            return _started(view, found, job, scheduled, now)
        case NameTaken(existing=job, scheduled=scheduled):
            if is_controlled_by(job, view.cron_job):
                return _started(view, found, job, scheduled, now)
            message = (
                f'Error creating job: jobs.batch "{job.metadata.name}" already exists, '
                "and this cron job does not control it"
            )
            event = warning("FailedCreate", message)
            return _wait(view, found, _following(view, now), event)
        case CreationFailed(error=error):
            event = warning("FailedCreate", f"Error creating job: {error}")
            decision = _wait(view, found, _following(view, now), event)
            return replace(decision, retry=error)
        case NamespaceTerminating():
            return _wait(view, found, _following(view, now))


def _started(
    view: View, found: ActiveJobs, job: Job, scheduled: datetime, now: datetime
) -> CronJobDecision:
    """Return the decision for a run whose job exists: it is listed while it runs."""
    is_listed = any(each.uid == job.metadata.uid for each in found.active)
    if end_of(job) is None and not is_listed:
        found = replace(found, active=(*found.active, reference_to_job(job)))
    return _wait(view, found, _following(view, now, scheduled), last_run=scheduled)


def _following(view: View, now: datetime, last_run: datetime | None = None) -> Plan:
    """Return a plan to wait for the run after `now`."""
    cron_job = view.cron_job
    if last_run is not None:
        status = replace(cron_job.status, last_schedule_time=format_time(last_run))
        cron_job = replace(cron_job, status=status)
    return Plan(requeue_after=seconds_until_next(cron_job, view.local, now))


def _wait(
    view: View,
    found: ActiveJobs,
    plan: Plan,
    *events: CronJobEvent,
    last_run: datetime | None = None,
) -> CronJobDecision:
    """Return the decision to write the status, and to requeue for the next run."""
    decision = final_decision(view, found, *plan.events, *events, last_run=last_run)
    return replace(decision, requeue_after=plan.requeue_after)


def final_decision(
    view: View,
    found: ActiveJobs,
    *events: CronJobEvent,
    last_run: datetime | None = None,
) -> CronJobDecision:
    """Return the decision to write the status, and to retry a failed deletion."""
    status = CronJobStatus(
        active=found.active or None,
        last_schedule_time=view.cron_job.status.last_schedule_time
        if last_run is None
        else format_time(last_run),
        last_successful_time=found.last_successful_time,
    )
    return Decision(
        tuple(map(RecordEvent, (*found.events, *events))),
        status,
        retry=_failure(view.deletions.values()),
    )


def _failure(errors: Iterable[Exception | None]) -> Exception | None:
    return next((each for each in errors if each is not None), None)
