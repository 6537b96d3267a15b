"""batch/v1: a projection of jobs."""

from controller_manager.api.meta import APIStruct, Projection
from controller_manager.api.resource import Resource


class JobSpec(APIStruct, frozen=True):
    """The fields of a job's spec that controllers read."""

    ttl_seconds_after_finished: int | None = None


class JobCondition(APIStruct, frozen=True):
    """One condition of a job."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class JobStatus(APIStruct, frozen=True):
    """The fields of a job's status that controllers read."""

    conditions: tuple[JobCondition, ...] | None = None


class Job(Projection, frozen=True):
    """A projection of a job: the fields that decide when it may be deleted."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


JOBS: Resource[Job] = Resource("batch", "v1", "jobs", "Job", Job)
