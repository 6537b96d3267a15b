"""The jobs of a cron job: their names, what they are made of, and how they end."""

from datetime import datetime
from typing import Any, Final

import msgspec

from controller_manager.api.batch.v1 import CRON_JOBS, JOBS, CronJob, Job
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.meta import annotations_of
from controller_manager.api.owners import controller_reference
from controller_manager.api.times import parse_time
from controller_manager.schedules.zones import load_zone

SCHEDULED_TIMESTAMP: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"


def job_name(cron_job: CronJob, scheduled: datetime) -> str:
    """Return the name of the job for a run: it has the run's minute since 1970.

    The name is a lock: no two jobs of one run can exist (getJobName).
    """
    return f"{cron_job.metadata.name}-{int(scheduled.timestamp()) // 60}"


def job_body(cron_job: CronJob, scheduled: datetime) -> bytes:
    """Return the request body of the job for a run (getJobFromTemplate2).

    The spec is copied as bytes, so none of its fields can be lost. The annotation
    states the run's time in the zone of `timeZone`, or in UTC.
    """
    template = cron_job.spec.job_template
    zone = load_zone(cron_job.spec.time_zone or "")
    local = scheduled.astimezone(zone).isoformat().replace("+00:00", "Z")
    owner = controller_reference(cron_job, CRON_JOBS.api_version, CRON_JOBS.kind)
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
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": metadata,
        "spec": template.spec,
    }
    return msgspec.json.encode(body)


def reference_to_job(job: Job) -> ObjectReference:
    """Return the entry of a job in the list of active jobs."""
    metadata = job.metadata
    return ObjectReference(
        kind=JOBS.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        api_version=JOBS.api_version,
        resource_version=metadata.resource_version,
    )


def end_of(job: Job) -> str | None:
    """Return how a job ended, `Complete` or `Failed`; `None` if it has not."""
    for condition in job.status.conditions or ():
        if condition.type in (COMPLETE, FAILED) and condition.status == "True":
            return condition.type
    return None


def is_of_a_run(job: Job) -> bool:
    """Tell whether a job was created for a run, not by hand."""
    return SCHEDULED_TIMESTAMP in annotations_of(job.metadata)


def by_start(job: Job) -> tuple[bool, datetime | None, str]:
    """Return a key that sorts jobs by their start; unstarted jobs are last.

    Upstream: byJobStartTime.
    """
    started = job.status.start_time
    time = parse_time(started) if started else None
    return time is None, time, job.metadata.name
