"""Explains cron jobs: the next run, why the last one did not start, and the runs."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace

from controller_manager.api.batch.v1 import JOBS, CronJob, Job, end_condition
from controller_manager.api.scalars import format_time
from controller_manager.controllers.batch.cronjob import schedule

from .cause import Cause, Item, State, counted, merged, symptom
from .creation import explain_refusal
from .jobs import explain_job
from .own_causes import spec_cause, suspended
from .view import View

_PATIENCE: Final = timedelta(seconds=10)
"""The time in which the controller starts a run that is due."""

_FORBID: Final = "Forbid"
_EXAMPLES: Final = 5
"""The most runs that are explained."""


async def explain_cron_job(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the causes for which runs did not start or are not complete.

    The time of the next run is a remark. The schedule is computed as the controller
    does, in UTC if it names no time zone.
    """
    cron_job = item.typed(CronJob)
    runs = await _runs(view, item, cron_job)
    starts = await _starts(view, item, cron_job, runs)
    waits_for_run = any(each.code == "ConcurrencyForbidden" for each in starts)
    shown = () if waits_for_run else await _explain_runs(view, item, runs)
    return (*starts, *shown)


async def _starts(
    view: View, item: Item, cron_job: CronJob, runs: Sequence[Item]
) -> tuple[Cause, ...]:
    """Return the causes for which no run starts, or the time of the next one."""
    if (problem := schedule.zone_problem(cron_job)) is not None:
        *_, message = problem
        return (_unusable(item, "UnknownTimeZone", "spec.timeZone", message),)
    if cron_job.spec.suspend:
        return (suspended(item, "so no run starts"),)
    plan = schedule.plan_runs(cron_job, UTC, view.now)
    for _, reason, message in plan.events:
        if plan.requeue_after is None:
            return (_unusable(item, reason, "spec.schedule", message),)
    waits = await _not_started(view, item, cron_job, plan, runs)
    return (*waits, *_next(view, item, plan))


def _unusable(item: Item, code: str, field: str, message: str) -> Cause:
    what = f"no run ever starts: {' '.join(message.split())}"
    return spec_cause(item, code, what, field, f"correct {field}")


def _next(view: View, item: Item, plan: schedule.Plan) -> tuple[Cause, ...]:
    """Return the remark about the next run."""
    if plan.requeue_after is None:
        return ()
    at = view.now + timedelta(seconds=plan.requeue_after)
    return (
        item.cause(
            "NextRun",
            f"the next run is due at {format_time(at)}",
            "spec.schedule",
            item.status.get("lastScheduleTime") or item.created_at,
            state=State.HEALTHY,
        ),
    )


async def _not_started(
    view: View, item: Item, cron_job: CronJob, plan: schedule.Plan, runs: Sequence[Item]
) -> tuple[Cause, ...]:
    """Return the cause for which the latest run did not start."""
    if plan.due is None:
        return _too_late(view, item, cron_job)
    active = cron_job.status.active or ()
    if active and cron_job.spec.concurrency_policy == _FORBID:
        cause = _forbidden(item, plan.due, active[0].name)
        shown = await _explain_runs(view, item, runs)
        return (symptom(cause, [below for each in shown for below in each.because]),)
    refusal = await explain_refusal(view, item, 1)
    is_new = view.now - plan.due < _PATIENCE
    cause = item.cause(
        "RunNotStarted",
        f"the run of {format_time(plan.due)} is due, and has not started",
        "status.lastScheduleTime",
        format_time(plan.due),
        remedy="" if is_new or refusal else "see that the cron job controller runs",
        state=State.PROGRESSING if is_new else State.STUCK,
    )
    return (symptom(cause, [refusal] if refusal else []),)


def _forbidden(item: Item, due: datetime, name: str) -> Cause:
    """Return the cause for a run that waits for the end of the one before."""
    return item.cause(
        "ConcurrencyForbidden",
        f"the run of {format_time(due)} waits for the job {name}: the concurrency "
        "policy is Forbid",
        "spec.concurrencyPolicy",
        format_time(due),
        remedy="wait for its end, delete it, or allow concurrent runs",
        state=State.PROGRESSING,
    )


async def _runs(view: View, item: Item, cron_job: CronJob) -> Sequence[Item]:
    """Return the jobs of a cron job, the newest first."""
    found = {
        each.name: each
        for each in await view.list(JOBS, item.namespace)
        if each.is_controlled_by(item)
    }
    if not view.is_whole(JOBS, item.namespace):
        for each in (cron_job.status.active or ())[:_EXAMPLES]:
            job = await view.find(JOBS, item.namespace, each.name)
            if job is not None:
                found[job.name] = job
    present = [each for each in found.values() if not each.deleted_at]
    return sorted(present, key=lambda each: (each.created_at, each.name), reverse=True)


async def _explain_runs(
    view: View, item: Item, runs: Sequence[Item]
) -> tuple[Cause, ...]:
    """Return the causes for which runs of a cron job go on, or the last has failed.

    A run that failed before one that was better is history.
    """
    ends = {each.name: end_condition(each.typed(Job)) for each in runs}
    going_on = [each for each in runs if ends[each.name] is None]
    if going_on:
        found: list[Cause] = []
        for each in going_on[:_EXAMPLES]:
            found += await explain_job(view, each)
        oldest = going_on[-1]
        others = f", the oldest is {oldest.name}" if len(going_on) > 1 else ""
        cause = item.cause(
            "RunNotComplete",
            f"{counted(len(going_on), 'run')} of the cron job "
            f"{'are' if others else 'is'} not complete{others}",
            "status.active",
            oldest.created_at,
            state=State.PROGRESSING,
        )
        return (symptom(cause, merged(found)),)
    last = next(iter(runs), None)
    failed = await explain_job(view, last) if last is not None else ()
    if last is None or not failed:
        return ()
    cause = item.cause(
        "RunFailed",
        "the last run of the cron job has failed",
        "status.lastSuccessfulTime",
        failed[0].since,
    )
    return (symptom(cause, failed),)


def _too_late(view: View, item: Item, cron_job: CronJob) -> tuple[Cause, ...]:
    """Return the cause for a run that missed startingDeadlineSeconds."""
    seconds = cron_job.spec.starting_deadline_seconds
    if seconds is None:
        return ()
    spec = replace(cron_job.spec, starting_deadline_seconds=None)
    missed = schedule.plan_runs(replace(cron_job, spec=spec), UTC, view.now).due
    if missed is None:
        return ()
    return (
        item.cause(
            "StartingDeadlineMissed",
            f"the run of {format_time(missed)} did not start within its "
            f"{seconds} s: no controller ran then, or the run before went on",
            "spec.startingDeadlineSeconds",
            format_time(missed),
            remedy="wait for the next run, or raise startingDeadlineSeconds",
        ),
    )
