"""The cron job controller alone: one sync, with all that it reads and writes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import msgspec

from controller_manager.api.batch.v1 import CRON_JOBS, JOBS, CronJob, CronJobStatus, Job
from controller_manager.api.meta import KubeObject, Status, StatusCause, StatusDetails
from controller_manager.client.rest.errors import (
    AlreadyExists,
    APIError,
    Forbidden,
    NotFound,
)
from controller_manager.controllers.batch.cronjob.controller import CronJobReconciler
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.runtime.outcome import DONE, Failed, Outcome
from tests.clusters import make_config
from tests.controllers.alone import Alone, Caches, StillClock
from tests.controllers.batch.cronjob.cases import NOON, CronJobEvent, cron_job, job

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
        assert options.uid == name
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
    """Return the situation of a cron job and its cached jobs."""
    return Situation(subject or cron_job(), jobs, **more)
