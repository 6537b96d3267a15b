"""The decision of one sync of a cron job: view in, actions out."""

from datetime import datetime

from controller_manager.api.meta import is_deleting
from controller_manager.control.decision import Decision, Step
from controller_manager.controllers.batch.cronjob.actions import (
    CronJobDecision,
    CronJobStep,
    DeleteJob,
    LookForActive,
    ReadCronJob,
)
from controller_manager.controllers.batch.cronjob.active import doubtful, see, unlisted
from controller_manager.controllers.batch.cronjob.history import surplus
from controller_manager.controllers.batch.cronjob.starting import (
    ended,
    finish_creation,
    start_run,
)
from controller_manager.controllers.batch.cronjob.timing import zone_problem
from controller_manager.controllers.batch.cronjob.view import View


def decide(view: View, now: datetime) -> CronJobStep | CronJobDecision:
    """Return what to do next for a cron job (sync and syncCronJob).

    A sync deletes finished jobs beyond the limits, brings the list of active jobs up
    to date, starts the latest run that was missed, and writes the status last.
    """
    if view.is_gone:
        return Decision()
    if (step := _read(view) or _clean_up(view)) is not None:
        return step
    seen = see(view)
    if view.creation is not None:
        return finish_creation(view, view.creation, seen, now)
    if is_deleting(view.cron_job):
        return ended(view, seen)
    if (problem := zone_problem(view.cron_job)) is not None:
        return ended(view, seen, problem)
    if view.cron_job.spec.suspend:
        return ended(view, seen)
    return start_run(view, seen, now)


def _read(view: View) -> CronJobStep | None:
    """Read what the caches may not show yet, before anything is said about it.

    The list of active jobs may be older than the cache of jobs, or newer.
    """
    if not view.is_fresh and any(unlisted(view)):
        return Step((ReadCronJob(),))
    unknown = (each for each in doubtful(view) if each.uid not in view.still_there)
    looks = tuple(map(LookForActive, unknown))
    return Step(looks) if looks else None


def _clean_up(view: View) -> CronJobStep | None:
    deletions = tuple(
        DeleteJob(job.metadata.name, job.metadata.uid)
        for job in surplus(view)
        if job.metadata.uid not in view.deletions
    )
    return Step(deletions) if deletions else None
