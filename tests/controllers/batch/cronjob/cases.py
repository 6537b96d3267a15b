"""Cron jobs and their jobs, events and statuses."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from controller_manager.api.batch.v1 import (
    CRON_JOBS,
    CronJob,
    CronJobSpec,
    CronJobStatus,
    Job,
    JobCondition,
    JobStatus,
)
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.meta import ObjectMeta, controller_reference
from controller_manager.client.events.recorder import NORMAL, WARNING
from controller_manager.controllers.batch.cronjob.jobs import SCHEDULED_TIMESTAMP

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
CronJobEvent = tuple[str, str, str]
"""The type, the reason and the message of an event."""

MINUTE: Final = timedelta(minutes=1)


def at(minutes: float) -> str:
    """Return the time that is `minutes` after noon."""
    return (NOON + minutes * MINUTE).strftime("%Y-%m-%dT%H:%M:%SZ")


def name_of_run(minutes: int) -> str:
    """Return the name of the job for the run that is `minutes` after noon."""
    return f"tick-{int(NOON.timestamp()) // 60 + minutes}"


def cron_job(
    *,
    active: tuple[ObjectReference, ...] | None = None,
    last: float | None = None,
    succeeded: float | None = None,
    deleting: bool = False,
    **spec: Any,
) -> CronJob:
    """Return a cron job that was created an hour before noon, due every ten minutes."""
    return CronJob(
        metadata=ObjectMeta(
            name="tick",
            namespace="default",
            uid="c",
            resource_version="1",
            creation_timestamp=at(-60),
            deletion_timestamp=at(0) if deleting else None,
        ),
        spec=replace(
            CronJobSpec(
                schedule="*/10 * * * *",
                concurrency_policy="Allow",
                successful_jobs_history_limit=3,
                failed_jobs_history_limit=1,
            ),
            **spec,
        ),
        status=CronJobStatus(
            active=active,
            last_schedule_time=None if last is None else at(last),
            last_successful_time=None if succeeded is None else at(succeeded),
        ),
    )


def job(
    name: str,
    end: str = "",
    *,
    started: float = 0,
    by_hand: bool = False,
    deleting: bool = False,
) -> Job:
    """Return a job of the cron job; its uid is its name.

    If it has ended, that was five minutes after it was `started`.
    """
    annotations = {} if by_hand else {SCHEDULED_TIMESTAMP: at(started)}
    status = JobStatus(start_time=at(started))
    if end:
        condition = JobCondition(type=end, status="True")
        status = replace(status, conditions=(condition,))
    if end == "Complete":
        status = replace(status, completion_time=at(started + 5))
    return Job(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=name,
            resource_version="7",
            annotations=annotations,
            owner_references=(controller_reference(cron_job(), CRON_JOBS),),
            deletion_timestamp=at(0) if deleting else None,
        ),
        status=status,
    )


def listed(name: str) -> ObjectReference:
    """Return the entry of a job in the list of active jobs."""
    return ObjectReference(
        kind="Job",
        namespace="default",
        name=name,
        uid=name,
        api_version="batch/v1",
        resource_version="7",
    )


def normal(reason: str, message: str) -> CronJobEvent:
    """Return a normal event."""
    return (NORMAL, reason, message)


def warning(reason: str, message: str) -> CronJobEvent:
    """Return a warning."""
    return (WARNING, reason, message)


def status(
    *active: str, last: float | None = None, succeeded: float | None = None
) -> CronJobStatus:
    """Return a status with these active jobs."""
    return CronJobStatus(
        active=tuple(map(listed, active)) or None,
        last_schedule_time=None if last is None else at(last),
        last_successful_time=None if succeeded is None else at(succeeded),
    )
