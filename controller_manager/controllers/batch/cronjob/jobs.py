"""The jobs of a cron job: names and bodies, which are active, and which are surplus."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from controller_manager.api.batch import v1
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.meta import (
    annotations_of,
    controller_reference,
    is_deleting,
)
from controller_manager.api.scalars import parse_time
from controller_manager.client.events.recorder import NORMAL, WARNING
from controller_manager.schedules.zones import load_zone

from .schedule import CronJobEvent

SCHEDULED_TIMESTAMP: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"


def job_name(cron_job: v1.CronJob, scheduled: datetime) -> str:
    """Return the name of the only job of a run: with its minute (getJobName)."""
    return f"{cron_job.metadata.name}-{int(scheduled.timestamp()) // 60}"


def job_body(cron_job: v1.CronJob, scheduled: datetime) -> bytes:
    """Return the request body of the job for a run (getJobFromTemplate2)."""
    # The spec is copied as bytes, so none of its fields can be lost.
    template = cron_job.spec.job_template
    zone = load_zone(cron_job.spec.time_zone or "")
    local = scheduled.astimezone(zone).isoformat().replace("+00:00", "Z")
    owner = controller_reference(cron_job, v1.CRON_JOBS)
    metadata: dict[str, Any] = {
        "name": job_name(cron_job, scheduled),
        "namespace": cron_job.metadata.namespace,
        "annotations": {
            **(template.metadata.annotations or {}),
            SCHEDULED_TIMESTAMP: local,
        },
        "ownerReferences": [owner],
    }
    if template.metadata.labels:
        metadata["labels"] = template.metadata.labels
    body = {
        "apiVersion": v1.JOBS.api_version,
        "kind": v1.JOBS.kind,
        "metadata": metadata,
        "spec": template.spec,
    }
    return msgspec.json.encode(body)


def reference_to_job(job: v1.Job) -> ObjectReference:
    """Return the entry of a job in the list of active jobs."""
    metadata = job.metadata
    return ObjectReference(
        kind=v1.JOBS.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        api_version=v1.JOBS.api_version,
        resource_version=metadata.resource_version,
    )


def end_of(job: v1.Job) -> str | None:
    """Return the end of a job, `Complete` or `Failed`; `None` if it has not ended."""
    condition = v1.end_condition(job)
    return None if condition is None else condition.type


def is_of_a_run(job: v1.Job) -> bool:
    """Tell whether a job was created for a run, not by hand."""
    return SCHEDULED_TIMESTAMP in annotations_of(job.metadata)


def _by_start(job: v1.Job) -> tuple[bool, datetime | None, str]:
    """Sort jobs by their start, unstarted jobs last (byJobStartTime)."""
    started = job.status.start_time
    time = parse_time(started) if started else None
    return time is None, time, job.metadata.name


class Known(Struct, frozen=True):
    """A cron job and its jobs, and what this sync has learned from the API server.

    `jobs` are the jobs that the cron job controls, by its uid. `is_fresh` is true if
    the cron job was read from the API server in this sync. `may_be_behind` is true
    while a former leader may have created jobs that are not known yet. `still_there`
    has the answers of the API server about active jobs that the cache does not show.
    `deletions` has the error of each deletion, by the job's uid, `None` for a deleted
    job.
    """

    cron_job: v1.CronJob
    jobs: tuple[v1.Job, ...]
    is_fresh: bool = False
    may_be_behind: bool = False
    still_there: Mapping[str, bool] = {}
    deletions: Mapping[str, Exception | None] = {}

    def is_deleted(self, uid: str) -> bool:
        """Tell whether this sync has deleted a job."""
        return self.deletions.get(uid, self) is None

    def active(self) -> tuple[ObjectReference, ...]:
        """Return the list of active jobs as stored, without those deleted here."""
        listed = self.cron_job.status.active or ()
        return tuple(each for each in listed if not self.is_deleted(each.uid))


def surplus(known: Known) -> Iterator[v1.Job]:
    """Yield the oldest finished jobs beyond the limits (cleanupFinishedJobs)."""
    spec = known.cron_job.spec
    yield from _beyond(spec.successful_jobs_history_limit, v1.COMPLETE, known)
    yield from _beyond(spec.failed_jobs_history_limit, v1.FAILED, known)


def _beyond(limit: int | None, end: str, known: Known) -> Iterator[v1.Job]:
    if limit is None:
        return
    kept = [job for job in known.jobs if end_of(job) == end and not is_deleting(job)]
    kept.sort(key=_by_start)
    yield from kept[: max(0, len(kept) - limit)]


class ActiveJobs(Struct, frozen=True):
    """The new list of active jobs, the last success, and events."""

    active: tuple[ObjectReference, ...]
    last_successful_time: str | None
    events: tuple[CronJobEvent, ...]


def unlisted(known: Known) -> Iterator[v1.Job]:
    """Yield the running jobs that the list of active jobs does not have."""
    listed = {each.uid for each in known.cron_job.status.active or ()}
    for job in known.jobs:
        uid = job.metadata.uid
        is_running = end_of(job) is None and not is_deleting(job)
        if is_running and uid not in listed and not known.is_deleted(uid):
            yield job


def uncached(known: Known) -> Iterator[ObjectReference]:
    """Yield the active jobs that the cache does not show."""
    cached = {job.metadata.uid for job in known.jobs}
    return (each for each in known.active() if each.uid not in cached)


def jobs_to_look_up(known: Known) -> Iterator[ObjectReference]:
    """Yield the active jobs that only the list or only the cache has."""
    yield from uncached(known)
    yield from (reference_to_job(job) for job in unlisted(known) if is_of_a_run(job))


def active_jobs(known: Known) -> ActiveJobs:
    """Return the active jobs, with events about changes (syncCronJob).

    A controller that ended between two writes may have created a job and not listed it.
    That job is listed now. Upstream only warns about it, and so can start another run
    of a Forbid cron job beside it. A job that a user made by hand is never listed.
    """
    events: list[CronJobEvent] = []
    active = {each.uid: each for each in known.active()}
    for job in known.jobs:
        if (end := end_of(job)) and active.pop(job.metadata.uid, None):
            name = job.metadata.name
            message = f"Saw completed job: {name}, condition: {end}"
            events.append((NORMAL, "SawCompletedJob", message))
    for job in unlisted(known):
        if not known.still_there.get(job.metadata.uid, True):
            continue  # the cache will show its deletion
        name = job.metadata.name
        message = f"Saw a job that the controller did not create or forgot: {name}"
        events.append((WARNING, "UnexpectedJob", message))
        if is_of_a_run(job):
            active[job.metadata.uid] = reference_to_job(job)
    for each in uncached(known):
        if not known.still_there.get(each.uid, True):
            del active[each.uid]
            message = f"Active job went missing: {each.name}"
            events.append((NORMAL, "MissingJob", message))
    return ActiveJobs(tuple(active.values()), _last_success(known), tuple(events))


def _last_success(known: Known) -> str | None:
    latest = known.cron_job.status.last_successful_time
    for job in known.jobs:
        time = job.status.completion_time
        if end_of(job) != v1.COMPLETE or time is None:
            continue
        if latest is None or parse_time(time) > parse_time(latest):
            latest = time
    return latest
