"""Which jobs are active, and when the last one succeeded (syncCronJob)."""

from collections.abc import Iterator

from msgspec import Struct

from controller_manager.api.batch.v1 import Job
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.meta import is_deleting
from controller_manager.api.times import parse_time
from controller_manager.controllers.batch.cronjob.actions import (
    CronJobEvent,
    normal,
    warning,
)
from controller_manager.controllers.batch.cronjob.jobs import (
    COMPLETE,
    end_of,
    is_of_a_run,
    reference_to_job,
)
from controller_manager.controllers.batch.cronjob.view import View


class Seen(Struct, frozen=True):
    """What the jobs of a cron job say: its new list of active jobs, and events."""

    active: tuple[ObjectReference, ...]
    last_successful_time: str | None
    events: tuple[CronJobEvent, ...]


def unlisted(view: View) -> Iterator[Job]:
    """Yield the running jobs that the list of active jobs does not have."""
    listed = {each.uid for each in view.cron_job.status.active or ()}
    for job in view.jobs:
        uid = job.metadata.uid
        is_running = end_of(job) is None and not is_deleting(job)
        if is_running and uid not in listed and not view.is_deleted(uid):
            yield job


def unseen(view: View) -> Iterator[ObjectReference]:
    """Yield the active jobs that the cache does not show."""
    cached = {job.metadata.uid for job in view.jobs}
    return (each for each in view.active() if each.uid not in cached)


def doubtful(view: View) -> Iterator[ObjectReference]:
    """Yield the jobs that list and cache disagree about, and that count as active.

    The API server must be asked whether they exist.
    """
    yield from unseen(view)
    yield from (reference_to_job(job) for job in unlisted(view) if is_of_a_run(job))


def see(view: View) -> Seen:
    """Return what the jobs say.

    A job that the controller has created and not listed, since it ended between both
    writes, is listed now. Upstream only warns about it, and so can start another run
    of a Forbid cron job beside it. A job that was made by hand is never listed.
    """
    events: list[CronJobEvent] = []
    active = {each.uid: each for each in view.active()}
    for job in view.jobs:
        if (end := end_of(job)) and active.pop(job.metadata.uid, None):
            name = job.metadata.name
            message = f"Saw completed job: {name}, condition: {end}"
            events.append(normal("SawCompletedJob", message))
    for job in unlisted(view):
        if not view.still_there.get(job.metadata.uid, True):
            continue  # the cache will show that it is gone
        message = (
            "Saw a job that the controller did not create or forgot: "
            f"{job.metadata.name}"
        )
        events.append(warning("UnexpectedJob", message))
        if is_of_a_run(job):
            active[job.metadata.uid] = reference_to_job(job)
    for each in unseen(view):
        if not view.still_there.get(each.uid, True):
            del active[each.uid]
            message = f"Active job went missing: {each.name}"
            events.append(normal("MissingJob", message))
    return Seen(tuple(active.values()), _last_success(view), tuple(events))


def _last_success(view: View) -> str | None:
    """Return the latest time at which a job was complete, as far as is known."""
    latest = view.cron_job.status.last_successful_time
    for job in view.jobs:
        time = job.status.completion_time
        if end_of(job) != COMPLETE or time is None:
            continue
        if latest is None or parse_time(time) > parse_time(latest):
            latest = time
    return latest
