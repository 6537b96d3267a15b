"""Whether the run that is due may start, and what its creation came to."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from controller_manager.api.batch.v1 import CronJobStatus, Job
from controller_manager.api.owners import is_controlled_by
from controller_manager.api.times import format_time
from controller_manager.control.decision import Decision, Step
from controller_manager.controllers.batch.cronjob.actions import (
    CreateJob,
    CronJobDecision,
    CronJobEvent,
    CronJobStep,
    DeleteJob,
    ReadCronJob,
    RecordEvent,
    SearchRuns,
    normal,
    warning,
)
from controller_manager.controllers.batch.cronjob.active import Seen
from controller_manager.controllers.batch.cronjob.jobs import (
    end_of,
    job_name,
    reference_to_job,
)
from controller_manager.controllers.batch.cronjob.timing import (
    Plan,
    plan_runs,
    recent_runs,
    seconds_until_next,
)
from controller_manager.controllers.batch.cronjob.view import (
    Created,
    Creation,
    CreationFailed,
    NamespaceTerminating,
    NameTaken,
    View,
)
from controller_manager.runtime.outcome import SyncError

_FORBID: Final = "Forbid"
_REPLACE: Final = "Replace"
_ALREADY_ACTIVE: Final = normal(
    "JobAlreadyActive",
    "Not starting job because prior execution is running and concurrency policy is "
    "Forbid",
)


def start_run(view: View, seen: Seen, now: datetime) -> CronJobStep | CronJobDecision:
    """Return the step that starts the run that is due, or a decision to wait."""
    cron_job = view.cron_job
    plan = plan_runs(cron_job, view.local, now)
    if plan.due is None:
        return _wait(view, seen, plan)
    name = job_name(cron_job, plan.due)
    if any(each.name == name for each in view.active()):
        return _wait(view, seen, plan)
    if any(job.metadata.name == name for job in view.jobs):
        return _wait(view, seen, plan, last_run=plan.due)
    if view.may_be_behind and not view.searched:
        return _search(view, now)
    policy = cron_job.spec.concurrency_policy
    if policy == _FORBID and seen.active:
        return _wait(view, seen, plan, _ALREADY_ACTIVE)
    if policy == _REPLACE and seen.active:
        return _replace(view, seen)
    events = map(RecordEvent, (*seen.events, *plan.events))
    return Step((*events, CreateJob(plan.due)))


def _search(view: View, now: datetime) -> CronJobStep:
    """Look for what a former leader has done and the caches do not show yet.

    The cron job says which run was the last one. Jobs that are not listed would be
    active beside the new one; their names tell where to look.
    """
    if not view.is_fresh:
        return Step((ReadCronJob(),))
    if view.cron_job.spec.concurrency_policy not in (_FORBID, _REPLACE):
        return Step((SearchRuns(()),))
    runs = recent_runs(view.cron_job, view.local, now)
    known = {job.metadata.name for job in view.jobs}
    names = dict.fromkeys(job_name(view.cron_job, run) for run in runs)
    return Step((SearchRuns(tuple(each for each in names if each not in known)),))


def _replace(view: View, seen: Seen) -> CronJobStep | CronJobDecision:
    """Delete the active jobs; the run starts once all of them are deleted."""
    untried = [each for each in seen.active if each.uid not in view.deletions]
    if untried:
        return Step(tuple(DeleteJob(each.name, each.uid) for each in untried))
    left = seen.active[0]
    error = SyncError(f"could not replace job {left.namespace}/{left.name}")
    return replace(ended(view, seen), retry=error)


def finish_creation(
    view: View, creation: Creation, seen: Seen, now: datetime
) -> CronJobDecision:
    """Return the decision after the creation of a run's job was tried.

    The events of this sync were recorded before it.
    """
    seen = replace(seen, events=())
    match creation:
        case Created(job=job, scheduled=scheduled):
            return _started(view, seen, job, scheduled, now)
        case NameTaken(existing=job, scheduled=scheduled):
            if is_controlled_by(job, view.cron_job):
                return _started(view, seen, job, scheduled, now)
            message = (
                f'Error creating job: jobs.batch "{job.metadata.name}" already exists, '
                "and this cron job does not control it"
            )
            event = warning("FailedCreate", message)
            return _wait(view, seen, _following(view, now), event)
        case CreationFailed(error=error):
            event = warning("FailedCreate", f"Error creating job: {error}")
            return replace(ended(view, seen, event), retry=error)
        case NamespaceTerminating():
            return _wait(view, seen, _following(view, now))


def _started(
    view: View, seen: Seen, job: Job, scheduled: datetime, now: datetime
) -> CronJobDecision:
    """Return the decision for a run whose job exists: it is listed while it runs."""
    is_listed = any(each.uid == job.metadata.uid for each in seen.active)
    if end_of(job) is None and not is_listed:
        seen = replace(seen, active=(*seen.active, reference_to_job(job)))
    return _wait(view, seen, _following(view, now, scheduled), last_run=scheduled)


def _following(view: View, now: datetime, last_run: datetime | None = None) -> Plan:
    """Return a plan that only waits for the run after `now`."""
    cron_job = view.cron_job
    if last_run is not None:
        status = replace(cron_job.status, last_schedule_time=format_time(last_run))
        cron_job = replace(cron_job, status=status)
    return Plan(requeue_after=seconds_until_next(cron_job, view.local, now))


def _wait(
    view: View,
    seen: Seen,
    plan: Plan,
    *events: CronJobEvent,
    last_run: datetime | None = None,
) -> CronJobDecision:
    """Return the decision to write the status, and to look again for the next run."""
    decision = ended(view, seen, *plan.events, *events, last_run=last_run)
    return replace(decision, requeue_after=plan.requeue_after)


def ended(
    view: View,
    seen: Seen,
    *events: CronJobEvent,
    last_run: datetime | None = None,
) -> CronJobDecision:
    """Return the decision to write the status; a failed deletion is tried again."""
    status = CronJobStatus(
        active=seen.active or None,
        last_schedule_time=view.cron_job.status.last_schedule_time
        if last_run is None
        else format_time(last_run),
        last_successful_time=seen.last_successful_time,
    )
    return Decision(
        tuple(map(RecordEvent, (*seen.events, *events))),
        status,
        retry=_failure(view.deletions.values()),
    )


def _failure(errors: Iterable[Exception | None]) -> Exception | None:
    return next((each for each in errors if each is not None), None)
