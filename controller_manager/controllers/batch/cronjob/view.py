"""The data of one sync, as an immutable value."""

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.batch.v1 import CronJob, Job
from controller_manager.api.core.v1 import ObjectReference


class Created(Struct, frozen=True):
    """The job of a run was created."""

    job: Job
    scheduled: datetime


class NameTaken(Struct, frozen=True):
    """A job of that name exists already."""

    existing: Job
    scheduled: datetime


class CreationFailed(Struct, frozen=True):
    """The API server did not create the job."""

    error: Exception


class NamespaceTerminating(Struct, frozen=True):
    """The namespace is being deleted: nothing can be created in it."""


Creation = Created | NameTaken | CreationFailed | NamespaceTerminating


class View(Struct, frozen=True):
    """A cron job, its jobs, and the results of this sync's reads and writes.

    `jobs` are the jobs that the cron job controls, by its uid. `is_fresh` is true if
    the cron job was read from the API server in this sync, `is_gone` if the server did
    not have it. `may_be_behind` is true if a former leader may have created jobs that
    the caches do not show yet; `searched` if this sync has looked for them.
    `still_there` has the answers of the API server about active jobs that the cache
    does not show. `deletions` has the error of each deletion, by the job's uid, `None`
    for a deleted job.
    """

    cron_job: CronJob
    jobs: tuple[Job, ...]
    local: tzinfo = UTC
    is_fresh: bool = False
    is_gone: bool = False
    may_be_behind: bool = False
    searched: bool = False
    still_there: Mapping[str, bool] = {}
    deletions: Mapping[str, Exception | None] = {}
    creation: Creation | None = None

    def with_deletion(self, uid: str, error: Exception | None) -> "View":
        """Return the view with the result of a deletion."""
        return replace(self, deletions={**self.deletions, uid: error})

    def is_deleted(self, uid: str) -> bool:
        """Tell whether this sync has deleted a job."""
        return self.deletions.get(uid, self) is None

    def active(self) -> tuple[ObjectReference, ...]:
        """Return the list of active jobs as stored, without those deleted here."""
        listed = self.cron_job.status.active or ()
        return tuple(each for each in listed if not self.is_deleted(each.uid))
