"""Finds the jobs that are gangs, and makes their workloads (job_scheduling_manager.go).

The pods of a gang are scheduled together or not at all. A workload names the job, and
has a template; a group of pods is made from the template, and the pods name the group.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from controller_manager.api.batch.v1 import JOBS, Job
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import APIStruct, OwnerReference
from controller_manager.api.owners import controller_reference
from controller_manager.api.scheduling.v1alpha2 import (
    POD_GROUPS,
    WORKLOADS,
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    Workload,
)
from controller_manager.control.hashes import fnv1a, safe_encode
from controller_manager.informers.indexes import Index

from .conditions import SUSPENDED
from .spec import is_indexed, parallelism

_LONGEST_NAME: Final = 253


class _PodSpec(APIStruct, frozen=True):
    """The only field that is read of the template's pod spec."""

    scheduling_group: JSON | None = None


def is_gang(job: Job) -> bool:
    """Tell whether all pods of a job run at the same time, and need each other.

    A job whose template names a group is not a gang: its group has another owner.
    Upstream: IsGangSchedulingCandidate.
    """
    spec = job.spec
    return (
        is_indexed(job)
        and parallelism(job) > 1
        and spec.completions == spec.parallelism
        and msgspec.json.decode(spec.template.spec, type=_PodSpec).scheduling_group
        is None
    )


def is_new(job: Job, pods: Sequence[Pod]) -> bool:
    """Tell whether a job, as it is stored, has never started (isNewJob).

    A job that is older than the gate must not become a gang. Pods may be gone, a
    suspended job loses its start time, and only the condition shows that a job was
    suspended before any of its pods ended.
    """
    status = job.status
    return not (
        pods
        or status.start_time is not None
        or status.succeeded
        or status.failed
        or any(each.type == SUSPENDED for each in status.conditions or ())
    )


# The caches.


def _job_key(workload: Workload) -> Iterable[str]:
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


def _has_same_job(old: Workload, new: Workload) -> bool:
    return list(_job_key(old)) == list(_job_key(new))


def _has_same_spec(old: PodGroup, new: PodGroup) -> bool:
    return old.spec == new.spec


WORKLOADS_BY_JOB: Final = Index("job", _job_key, _has_same_job)
"""Workloads by the key of the job in their controllerRef."""

GROUPS_BY_WORKLOAD: Final = Index("workload", _workload_key, _has_same_spec)
"""Groups by the key of the workload whose template they are made from."""


# The bodies of requests.


def workload_body(job: Job) -> JSON:
    """Return the workload to create for a job, with one template for all its pods."""
    name = job.metadata.name
    policy = PodGroupSchedulingPolicy(
        gang=GangSchedulingPolicy(min_count=parallelism(job))
    )
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": workload_name(name, job.metadata.uid),
            "namespace": job.metadata.namespace,
            "ownerReferences": [_reference_to(job)],
        },
        "spec": {
            "controllerRef": {"apiGroup": JOBS.group, "kind": JOBS.kind, "name": name},
            "podGroupTemplates": [
                {"name": f"{name}-pgt-0", "schedulingPolicy": policy}
            ],
        },
    }


def pod_group_body(job: Job, workload: Workload) -> JSON:
    """Return the group of pods to create from the only template of a workload.

    The workload owns the group, too, but its deletion does not wait for the group.
    """
    origin = workload.metadata.name
    (template,) = workload.spec.pod_group_templates or ()
    owner = OwnerReference(
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
            "ownerReferences": [_reference_to(job), owner],
        },
        "spec": {
            "podGroupTemplateRef": {"workload": reference},
            "schedulingPolicy": template.scheduling_policy,
        },
    }


def _reference_to(job: Job) -> OwnerReference:
    return controller_reference(job, JOBS.api_version, JOBS.kind)


def workload_name(job: str, uid: str) -> str:
    """Return the name of the workload of a job with this name and uid.

    The hash is of the text that Go's DeepHashObject makes of a uid.
    """
    end = safe_encode(fnv1a(f"(types.UID){uid}".encode()))
    return f"{job[: _LONGEST_NAME - len(end) - 1]}-{end}"


def pod_group_name(workload: str, template: str) -> str:
    """Return the name of the group that is made from a template of a workload.

    If both names together are too long, each gets half of the space. The longer name
    also gets the space that a short name leaves.
    """
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
