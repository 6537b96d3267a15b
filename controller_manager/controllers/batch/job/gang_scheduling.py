"""Makes the workload and the group of pods of a gang, behind the feature gate."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from controller_manager.api.batch.v1 import JOBS, Job
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import KubeObject, key_of
from controller_manager.api.owners import controller_of, is_controlled_by
from controller_manager.api.resource import Resource
from controller_manager.api.scheduling.v1alpha2 import (
    POD_GROUPS,
    WORKLOADS,
    PodGroup,
    Workload,
)
from controller_manager.client.errors import AlreadyExists
from controller_manager.client.events import NORMAL
from controller_manager.informers.lister import Lister
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import SyncError

from .options import WORKLOAD_WITH_JOB
from .workloads import (
    GROUPS_BY_WORKLOAD,
    WORKLOADS_BY_JOB,
    is_gang,
    is_new,
    pod_group_body,
    workload_body,
)

ObjectT = TypeVar("ObjectT", bound=KubeObject)


class GangScheduling:
    """Finds or makes the group that the pods of a job name.

    Without the gate no job is a gang, and workloads and groups are not watched. If the
    job does not control the workload or group, its pods are scheduled one by one, and
    no event is recorded.
    """

    def __init__(self, context: ControllerContext) -> None:
        """Take the caches of workloads and groups if the gate is enabled."""
        self._client = context.client
        self._recorder = context.recorder
        self._logger = context.logger
        self._consistency = context.consistency
        self._workloads: Lister[Workload] | None = None
        self._groups: Lister[PodGroup] | None = None
        if context.config.features.is_enabled(WORKLOAD_WITH_JOB):
            self._workloads = context.lister(WORKLOADS, WORKLOADS_BY_JOB)
            self._groups = context.lister(POD_GROUPS, GROUPS_BY_WORKLOAD)

    async def group_of(self, job: Job, pods: Sequence[Pod]) -> str:
        """Return the name of the group for a job's pods, "" if the job is not a gang.

        `job` is the stored job, and `pods` are its pods. A missing group is created. A
        missing workload is created only for a job that has never started. Raises the
        errors of the client: then no pod may be created, because its group cannot be
        set later.
        """
        if self._workloads is None or self._groups is None or not is_gang(job):
            return ""
        workload = await self._workload(self._workloads, job, pods)
        if workload is None:
            return ""
        group = await self._group(self._groups, job, workload)
        return "" if group is None else group.metadata.name

    async def _workload(
        self, workloads: Lister[Workload], job: Job, pods: Sequence[Pod]
    ) -> Workload | None:
        """Return the workload of a job, `None` for default scheduling."""
        found = [
            each
            for each in workloads.by_index(WORKLOADS_BY_JOB, key_of(job))
            if not _is_of_earlier_job(each, job)
        ]
        if found:
            workload = self._only(WORKLOADS, job, found)
        elif is_new(job, pods):
            workload = await self._make_workload(job)
        else:
            return None
        if workload is None or len(workload.spec.pod_group_templates or ()) == 1:
            return workload
        self._logger.v(2).info(
            "Workload has unsupported number of PodGroupTemplates, falling back to "
            "default scheduling",
            job=key_of(job),
            workload=key_of(workload),
        )
        return None

    async def _make_workload(self, job: Job) -> Workload:
        body = workload_body(job)
        try:
            workload = await self._create(WORKLOADS, job, body)
        except AlreadyExists:
            return await self._read(WORKLOADS, job, body)
        name = workload.metadata.name
        message = f"Created Workload {name} for Job {job.metadata.name}"
        self._recorder.event(JOBS, job, NORMAL, "WorkloadCreated", message)
        return workload

    async def _group(
        self, groups: Lister[PodGroup], job: Job, workload: Workload
    ) -> PodGroup | None:
        """Return the group of a workload, `None` for default scheduling."""
        found = groups.by_index(GROUPS_BY_WORKLOAD, key_of(workload))
        if found:
            return self._only(POD_GROUPS, job, found)
        body = pod_group_body(job, workload)
        try:
            return await self._create(POD_GROUPS, job, body)
        except AlreadyExists:
            return await self._read(POD_GROUPS, job, body)

    async def _create(
        self, resource: Resource[ObjectT], job: Job, body: JSON
    ) -> ObjectT:
        encoded = msgspec.json.encode(body)
        namespace = job.metadata.namespace
        return await self._client.create_json(resource, namespace, encoded)

    async def _read(self, resource: Resource[ObjectT], job: Job, body: JSON) -> ObjectT:
        """Return the object that has the name of a new one, if the job controls it.

        The cache may not show yet what an earlier sync created; the next sync waits
        until it does. Raises SyncError if the job does not control the object.
        """
        namespace, name = job.metadata.namespace, body["metadata"]["name"]
        stored = await self._client.get(resource, namespace, name)
        if not is_controlled_by(stored, job):
            full_name = f"{resource.kind} {namespace}/{name}"
            msg = f"{full_name} exists, and the job does not control it"
            raise SyncError(msg)
        self._consistency.record(key_of(job), resource, stored)
        return stored

    def _only(
        self, resource: Resource[ObjectT], job: Job, found: Sequence[ObjectT]
    ) -> ObjectT | None:
        """Return the only object that was found, if the job controls it."""
        one, *others = found
        if others:
            self._logger.error(
                "Found several objects for the job, falling back to default scheduling",
                job=key_of(job),
                kind=resource.kind,
                count=len(found),
            )
            return None
        if is_controlled_by(one, job):
            return one
        self._logger.v(2).info(
            f"{resource.kind} not owned by this Job, skipping workload integration",
            job=key_of(job),
            name=key_of(one),
        )
        return None


def _is_of_earlier_job(workload: Workload, job: Job) -> bool:
    """Tell whether a deleted job of the same name controls a workload.

    The garbage collector will delete the workload. Upstream does not make a gang of the
    new job then.
    """
    reference = controller_of(workload)
    return reference is not None and (
        (reference.api_version, reference.kind, reference.name)
        == (JOBS.api_version, JOBS.kind, job.metadata.name)
        and reference.uid != job.metadata.uid
    )
