"""Cron jobs and their jobs, events and statuses."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from controller_manager.api.batch.v1 import (
    CRON_JOBS,
    JOBS,
    CronJob,
    CronJobSpec,
    CronJobStatus,
    Job,
    JobCondition,
    JobStatus,
)
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import (
    KubeObject,
    ObjectMeta,
    Status,
    StatusCause,
    StatusDetails,
    controller_reference,
)
from controller_manager.client.events.recorder import NORMAL, WARNING
from controller_manager.client.rest.client import DeleteOptions, PropagationPolicy
from controller_manager.client.rest.errors import (
    AlreadyExists,
    APIError,
    Forbidden,
    NotFound,
)
from controller_manager.controllers.batch.cronjob.controller import CronJobReconciler
from controller_manager.controllers.batch.cronjob.jobs import SCHEDULED_TIMESTAMP
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.runtime.outcome import DONE, Failed, Outcome
from tests.clusters import EPOCH, make_config
from tests.controllers.alone import Alone, Caches, StillClock
from tests.controllers.stored import Stored

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
    return (NORMAL, reason, message)


def warning(reason: str, message: str) -> CronJobEvent:
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


CONFIG: Final = make_config(controllers=("cronjob",))

MINUTE_OF_EPOCH: Final = int(EPOCH.timestamp()) // 60
TEMPLATE: Final[JSON] = {
    "spec": {
        "template": {
            "metadata": {"labels": {"app": "tick"}},
            "spec": {
                "containers": [{"name": "c", "image": "app:v1"}],
                "restartPolicy": "Never",
            },
        }
    }
}


def after(seconds: float) -> str:
    """Return the time that many seconds after the start of the cluster."""
    moment = EPOCH + timedelta(seconds=seconds)
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def run_name(minutes: int, cron_job: str = "tick") -> str:
    """Return the name of the job for the run that many minutes after the start."""
    return f"{cron_job}-{MINUTE_OF_EPOCH + minutes}"


def owner_json(uid: str, name: str = "tick") -> JSON:
    """Return a reference to a cron job that controls a job."""
    reference: JSON = {"apiVersion": "batch/v1", "kind": "CronJob", "name": name}
    return {**reference, "uid": uid, "controller": True}


class Cron(Stored):
    """A cluster with a user of cron jobs."""

    def create(
        self,
        name: str = "tick",
        schedule: str = "* * * * *",
        status: JSON | None = None,
        template: JSON | None = None,
        **spec: Any,
    ) -> str:
        body = {
            "schedule": schedule,
            "jobTemplate": TEMPLATE if template is None else template,
            **spec,
        }
        self.cluster.add("CronJob", name, "batch/v1", spec=body, status=status)
        return str(self.get("CronJob", name)["metadata"]["uid"])

    def add_job(
        self, name: str, owner: str, owner_name: str = "tick", *, scheduled: bool
    ) -> None:
        """Create a job that a cron job controls, of a run or made by hand."""
        annotations = (
            {"batch.kubernetes.io/cronjob-scheduled-timestamp": after(0)}
            if scheduled
            else {"cronjob.kubernetes.io/instantiate": "manual"}
        )
        reference = owner_json(owner, owner_name)
        metadata: JSON = {"name": name, "annotations": annotations}
        metadata["ownerReferences"] = [reference]
        self.cluster.add("Job", name, "batch/v1", metadata=metadata, **TEMPLATE)

    def end_job(self, name: str, end: str = "Complete", started: float = 0.0) -> None:
        """Write the status of a job that has ended now."""
        now = self.cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        reasons = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
        conditions = [
            {"type": each, "status": "True", "lastTransitionTime": now}
            for each in (reasons[end], end)
        ]
        status: JSON = {"startTime": after(started), "conditions": conditions}
        if end == "Complete":
            status |= {"completionTime": now, "succeeded": 1}
        self.set_status("Job", name, **status)

    def jobs(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.all("Job")]

    def active(self, name: str = "tick") -> list[str]:
        """Return the names of the jobs that a cron job lists as active."""
        status = self.get("CronJob", name).get("status", {})
        return [each["name"] for each in status.get("active", [])]

    def touch(self, value: str) -> None:
        found = self.get("CronJob", "tick")
        annotations = {"annotations": {"touched": value}}
        self.update(
            "CronJob", {**found, "metadata": {**found["metadata"], **annotations}}
        )

    def store(self, **spec: Any) -> None:
        """Store a spec that no request may leave."""
        body = self.get("CronJob", "tick")
        kind = self.cluster.server.catalogue.of("batch/v1", "CronJob")
        assert kind is not None
        changed = {**body, "spec": {**body["spec"], **spec}}
        self.cluster.server.objects.put(kind, ("default", "tick"), changed)

    def times_of(self, name: str = "tick") -> tuple[str | None, str | None]:
        status = self.get("CronJob", name).get("status", {})
        return status.get("lastScheduleTime"), status.get("lastSuccessfulTime")

    def events(self) -> list[str]:
        """Return the events about cron jobs: name, type, reason, message."""
        return sorted(
            f"{each['involvedObject']['name']} {each['type']} {each['reason']} "
            f"[{each['source']['component']}]: {each['message']}"
            for each in self.all("Event")
            if each["involvedObject"]["kind"] == "CronJob"
        )


async def until_minute(minutes: float, extra: float = 1.0) -> None:
    """Sleep until a second after this number of minutes since the start."""
    now = asyncio.get_running_loop().time()
    await asyncio.sleep(minutes * 60 + extra - now)


NOW: Final = NOON + timedelta(minutes=5)
ERROR: Final = APIError(Status(message="no"))
TERMINATING: Final = Forbidden(
    Status(details=StatusDetails(causes=(StatusCause(reason="NamespaceTerminating"),)))
)


@dataclass(frozen=True)
class Situation:
    """A cron job, and the jobs that the cache has.

    The API server has the cron job unless it `is_gone`, and the cached jobs without
    those that are `lost`, and `more` jobs. It refuses to create or delete the jobs in
    `errors`.
    """

    cron_job: CronJob
    jobs: tuple[Job, ...] = ()
    is_gone: bool = False
    lost: tuple[str, ...] = ()
    more: tuple[Job, ...] = ()
    errors: Mapping[str, APIError] = field(default_factory=dict)
    is_new_leader: bool = False

    def sync(self) -> "Synced":
        """Carry out one sync."""
        server, caches = _Server(self), Caches()
        caches.fill(CRON_JOBS, [self.cron_job])
        caches.fill(JOBS, self.jobs)
        election = LeaderElectionConfig(leader_elect=self.is_new_leader)
        config = make_config(leader_election=election)
        alone = Alone(CronJobReconciler, server, caches, config)
        alone.controller.clock = StillClock(NOW)
        if self.is_new_leader:
            alone.controller.starting()
        outcome = alone.reconcile(self.cron_job)
        return Synced(
            tuple(server.reads),
            tuple(server.created),
            tuple(server.deleted),
            tuple(alone.recorder.events),
            server.status,
            outcome,
        )


@dataclass(frozen=True)
class Synced:
    """What a sync has read and written: names of objects, events, the status."""

    reads: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    events: tuple[CronJobEvent, ...] = ()
    status: CronJobStatus = field(default_factory=CronJobStatus)
    outcome: Outcome = DONE

    @property
    def comparable(self) -> tuple[Any, ...]:
        """All of it; errors are compared by their words."""
        outcome: Any = self.outcome
        if isinstance(outcome, Failed):
            outcome = (type(outcome.error), str(outcome.error), outcome.requeue_after)
        writes = (self.created, self.deleted, self.events, self.status)
        return (self.reads, *writes, outcome)


class _Server:
    """Answers the controller's client at once."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        present = (*situation.jobs, *situation.more)
        self._jobs = {
            each.metadata.name: each
            for each in present
            if each.metadata.name not in situation.lost
        }
        self.status = situation.cron_job.status
        self.reads: list[str] = []
        self.created: list[str] = []
        self.deleted: list[str] = []

    async def get(self, resource: Any, namespace: str, name: str) -> KubeObject:
        del namespace
        self.reads.append(name)
        if resource is CRON_JOBS and not self._situation.is_gone:
            return self._situation.cron_job
        if resource is JOBS and name in self._jobs:
            return self._jobs[name]
        raise NotFound(Status(code=404, details=StatusDetails(name)))

    async def create_json(self, resource: Any, namespace: str, body: bytes) -> Job:
        del resource, namespace
        name = msgspec.json.decode(body)["metadata"]["name"]
        if name in self._situation.errors:
            raise self._situation.errors[name]
        if name in self._jobs:
            raise AlreadyExists(Status(message=f'jobs.batch "{name}" already exists'))
        self.created.append(name)
        return job(name)

    async def delete(
        self, resource: Any, namespace: str, name: str, options: Any
    ) -> None:
        del resource, namespace
        expected = DeleteOptions(
            propagation_policy=PropagationPolicy.BACKGROUND, uid=name
        )
        assert options == expected
        if name in self._situation.errors:
            raise self._situation.errors[name]
        self.deleted.append(name)

    async def update_for_metadata(
        self, resource: Any, changed: CronJob, subresource: str
    ) -> None:
        del resource
        assert subresource == "status"
        assert changed.status != self.status, "the status is the same"
        self.status = changed.status


def seen(subject: CronJob | None = None, *jobs: Job, **more: Any) -> Situation:
    return Situation(subject or cron_job(), jobs, **more)
