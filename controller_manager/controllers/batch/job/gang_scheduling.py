"""Makes the workload and the group of pods of a gang, behind the feature gate.

The first part finds the jobs that are gangs, and makes their workloads
(job_scheduling_manager.go).

The pods of a gang are scheduled together or not at all. A workload names the job, and
has a template; a group of pods is made from the template, and the pods name the group.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from controller_manager.api import meta
from controller_manager.api.batch.v1 import JOBS, Job
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.scheduling.v1alpha2 import (
    POD_GROUPS,
    WORKLOADS,
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    Workload,
)
from controller_manager.client.events.recorder import NORMAL
from controller_manager.client.rest.errors import AlreadyExists
from controller_manager.control.hashes import fnv1a, safe_encode
from controller_manager.informers.store import Index, Lister
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import SyncError

from . import WORKLOAD_WITH_JOB
from .pods import is_indexed, parallelism
from .status import SUSPENDED

_LONGEST_NAME: Final = 253


class _PodSpec(meta.APIStruct, frozen=True):
    """The only field that is read of the template's pod spec."""

    scheduling_group: JSON | None = None


def is_gang(job: Job) -> bool:
    """Tell whether all pods must run together (IsGangSchedulingCandidate)."""
    # If the template names a group, that has another owner.
    spec = job.spec
    return (
        is_indexed(job)
        and parallelism(job) > 1
        and spec.completions == spec.parallelism
        and msgspec.json.decode(spec.template.spec, type=_PodSpec).scheduling_group
        is None
    )


def is_new(job: Job, pods: Sequence[Pod]) -> bool:
    """Tell whether a job, as it is stored, has never started (isNewJob)."""
    # A job that is older than the gate must not become a gang. Pods may be gone, a
    # suspended job loses its start time, and only the condition shows that a job was
    # suspended before any of its pods ended.
    status = job.status
    return not (
        pods
        or status.start_time is not None
        or status.succeeded
        or status.failed
        or any(each.type == SUSPENDED for each in status.conditions or ())
    )


# The caches.


def _job_key(workload: Workload) -> tuple[str, ...]:
    reference = workload.spec.controller_ref
    if reference is None or not reference.name:
        return ()
    if (reference.api_group, reference.kind) != (JOBS.group, JOBS.kind):
        return ()
    return (f"{workload.metadata.namespace}/{reference.name}",)


def _workload_key(group: PodGroup) -> Iterable[str]:
    spec = msgspec.json.decode(group.spec, type=PodGroupSpec)
    reference = spec.pod_group_template_ref
    origin = reference.workload if reference is not None else None
    if origin is None or not origin.workload_name:
        return ()
    return (f"{group.metadata.namespace}/{origin.workload_name}",)


WORKLOADS_BY_JOB: Final = Index(
    "job", _job_key, lambda old, new: _job_key(old) == _job_key(new)
)
"""Workloads by the key of the job in their controllerRef."""

GROUPS_BY_WORKLOAD: Final = Index(
    "workload", _workload_key, lambda old, new: old.spec == new.spec
)
"""Groups by the key of the workload whose template they are made from."""


# The bodies of requests.


def workload_body(job: Job) -> JSON:
    """Return the workload to create for a job, with one template for all its pods."""
    name, gang = job.metadata.name, GangSchedulingPolicy(min_count=parallelism(job))
    policy = PodGroupSchedulingPolicy(gang=gang)
    template = {"name": f"{name}-pgt-0", "schedulingPolicy": policy}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": workload_name(name, job.metadata.uid),
            "namespace": job.metadata.namespace,
            "ownerReferences": [meta.controller_reference(job, JOBS)],
        },
        "spec": {
            "controllerRef": {"apiGroup": JOBS.group, "kind": JOBS.kind, "name": name},
            "podGroupTemplates": [template],
        },
    }


def pod_group_body(job: Job, workload: Workload) -> JSON:
    """Return the group of pods to create from the only template of a workload."""
    # The workload owns the group, too, but its deletion does not wait for the group.
    origin = workload.metadata.name
    (template,) = workload.spec.pod_group_templates or ()
    owner = meta.OwnerReference(
        api_version=WORKLOADS.api_version,
        kind=WORKLOADS.kind,
        name=origin,
        uid=workload.metadata.uid,
    )
    reference = {"workloadName": origin, "podGroupTemplateName": template.name}
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {
            "name": pod_group_name(origin, template.name),
            "namespace": job.metadata.namespace,
            "ownerReferences": [meta.controller_reference(job, JOBS), owner],
        },
        "spec": {
            "podGroupTemplateRef": {"workload": reference},
            "schedulingPolicy": template.scheduling_policy,
        },
    }


def workload_name(job: str, uid: str) -> str:
    """Return the name of a job's workload."""
    # The hash is of the text that Go's DeepHashObject makes of a uid.
    end = safe_encode(fnv1a(f"(types.UID){uid}".encode()))
    return f"{job[: _LONGEST_NAME - len(end) - 1]}-{end}"


def pod_group_name(workload: str, template: str) -> str:
    """Return the name of the group that is made from a template of a workload."""
    # If both names together are too long, each gets half of the space. The longer name
    # also gets the space that a short name leaves.
    end = safe_encode(fnv1a(f"{workload}{template}".encode()))
    space = _LONGEST_NAME - len(end) - 2
    half = space // 2
    if len(workload) <= half:
        template = template[: space - len(workload)]
    elif len(template) <= half:
        workload = workload[: space - len(template)]
    elif len(workload) + len(template) > space:
        workload, template = workload[: space - half], template[:half]
    return f"{workload}-{template}-{end}"


ObjectT = TypeVar("ObjectT", bound=meta.KubeObject)


class GangScheduling:
    """Finds or makes the group that the pods of a job name.

    Without the gate no job is a gang, and workloads and groups are not watched. If the
    job does not control the workload or group, its pods are scheduled one by one, and
    no event is recorded.
    """

    def __init__(self, context: ControllerContext) -> None:
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
        """Return the group of a job's pods, "" if the job is not a gang.

        `job` is the stored job. After an error no pod may be created, because its group
        cannot be set later.
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
        cached = workloads.by_index(WORKLOADS_BY_JOB, meta.key_of(job))
        found = [each for each in cached if not _is_of_earlier_job(each, job)]
        if found:
            workload = self._only(WORKLOADS, job, found)
        elif is_new(job, pods):
            workload, is_made = await self._create(WORKLOADS, job, workload_body(job))
            if is_made:
                name = workload.metadata.name
                message = f"Created Workload {name} for Job {job.metadata.name}"
                self._recorder.event(JOBS, job, NORMAL, "WorkloadCreated", message)
        else:
            return None
        if workload is None or len(workload.spec.pod_group_templates or ()) == 1:
            return workload
        self._logger.v(2).info(
            "Workload has unsupported number of PodGroupTemplates, falling back to "
            "default scheduling",
            job=meta.key_of(job),
            workload=meta.key_of(workload),
        )
        return None

    async def _group(
        self, groups: Lister[PodGroup], job: Job, workload: Workload
    ) -> PodGroup | None:
        found = groups.by_index(GROUPS_BY_WORKLOAD, meta.key_of(workload))
        if found:
            return self._only(POD_GROUPS, job, found)
        body = pod_group_body(job, workload)
        group, _ = await self._create(POD_GROUPS, job, body)
        return group

    async def _create(
        self, resource: meta.Resource[ObjectT], job: Job, body: JSON
    ) -> tuple[ObjectT, bool]:
        # The cache may not show yet what an earlier sync created; the next sync waits
        # until it does. The flag tells whether this call has created the object.
        namespace, name = job.metadata.namespace, body["metadata"]["name"]
        encoded = msgspec.json.encode(body)
        try:
            return await self._client.create_json(resource, namespace, encoded), True
        except AlreadyExists:
            stored = await self._client.get(resource, namespace, name)
        if not meta.is_controlled_by(stored, job):
            full_name = f"{resource.kind} {namespace}/{name}"
            msg = f"{full_name} exists, and the job does not control it"
            raise SyncError(msg)
        self._consistency.record(meta.key_of(job), resource, stored)
        return stored, False

    def _only(
        self, resource: meta.Resource[ObjectT], job: Job, found: Sequence[ObjectT]
    ) -> ObjectT | None:
        one, *others = found
        if others:
            self._logger.error(
                "Found several objects for the job, falling back to default scheduling",
                job=meta.key_of(job),
                kind=resource.kind,
                count=len(found),
            )
            return None
        if meta.is_controlled_by(one, job):
            return one
        self._logger.v(2).info(
            f"{resource.kind} not owned by this Job, skipping workload integration",
            job=meta.key_of(job),
            name=meta.key_of(one),
        )
        return None


def _is_of_earlier_job(workload: Workload, job: Job) -> bool:
    # The garbage collector will delete the workload. Upstream does not make a gang of
    # the new job then.
    reference = meta.controller_of(workload)
    if reference is None or reference.uid == job.metadata.uid:
        return False
    named = reference.api_version, reference.kind, reference.name
    return named == (JOBS.api_version, JOBS.kind, job.metadata.name)
