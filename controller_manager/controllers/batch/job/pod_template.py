"""The pods of a job, as they are created (manageJob, indexed_job_utils.go)."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from controller_manager.api.batch.v1 import JOBS, Job
from controller_manager.api.core.v1 import JOB_COMPLETION_INDEX, Pod, PodTemplateSpec
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import raw_json
from controller_manager.api.owners import controller_reference
from controller_manager.control.pod_control import pod_from_template

from .actions import Create
from .backoff import annotations_of_replacement
from .spec import has_limit_per_index
from .view import FINALIZER

_Spec = dict[str, Raw]
"""A pod spec, field by field; fields that are not read stay bytes."""

_LONGEST_PREFIX: Final = 58
"""The most characters of a generateName that the API server keeps: 63 less 5."""

_VARIABLE: Final = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {
        "fieldRef": {
            "apiVersion": "v1",
            "fieldPath": f"metadata.labels['{JOB_COMPLETION_INDEX}']",
        }
    },
}


def pod_bodies(job: Job, plan: Create, group: str = "") -> Iterator[bytes]:
    """Yield the request bodies of the pods to create.

    The pods of a gang have indexes, and name their `group`.
    """
    reference = controller_reference(job, JOBS.api_version, JOBS.kind)
    template = _tracked(job.spec.template)
    if not plan.indexes:
        body = pod_from_template(template, job, reference)
        yield from (body for _ in range(plan.count))
        return
    spec = _with_variable(template)
    if group:
        spec["schedulingGroup"] = raw_json({"podGroupName": group})
    for index in plan.indexes:
        indexed = _with_index(template, spec, job, index, plan.replaced)
        prefix = _prefix(job.metadata.name, index)
        yield pod_from_template(indexed, job, reference, prefix)


def _tracked(template: PodTemplateSpec) -> PodTemplateSpec:
    """Add the finalizer to a template."""
    metadata = template.metadata
    finalizers = metadata.finalizers or ()
    if FINALIZER in finalizers:
        return template
    metadata = replace(metadata, finalizers=(*finalizers, FINALIZER))
    return replace(template, metadata=metadata)


def _with_variable(template: PodTemplateSpec) -> _Spec:
    """Return the fields of the pod spec; containers get the variable with their index.

    The fields are encoded once for all pods.
    """
    spec = msgspec.json.decode(template.spec, type=_Spec)
    for field in ("initContainers", "containers"):
        if field in spec:
            containers: list[JSON] = msgspec.json.decode(spec[field]) or []
            for container in containers:
                _add_variable(container)
            spec[field] = raw_json(containers)
    return spec


def _add_variable(container: JSON) -> None:
    present = container.get("env") or []
    if all(each["name"] != _VARIABLE["name"] for each in present):
        container["env"] = [*present, _VARIABLE]


def _with_index(
    template: PodTemplateSpec,
    spec: _Spec,
    job: Job,
    index: int,
    replaced: Mapping[int, Pod],
) -> PodTemplateSpec:
    """Return the template of one index: label, annotations and hostname."""
    metadata = template.metadata
    mark = {JOB_COMPLETION_INDEX: str(index)}
    annotations = {**(metadata.annotations or {}), **mark}
    if has_limit_per_index(job):
        policy = job.spec.pod_failure_policy
        annotations |= annotations_of_replacement(policy, replaced.get(index))
    labels = {**(metadata.labels or {}), **mark}
    hostname = raw_json(f"{job.metadata.name}-{index}")
    return replace(
        template,
        metadata=replace(metadata, labels=labels, annotations=annotations),
        spec=raw_json({**spec, "hostname": hostname}),
    )


def _prefix(job: str, index: int) -> str:
    """Return the generateName; if it is too long, the job's name is cut."""
    end = f"-{index}-"
    return job[: _LONGEST_PREFIX - len(end)] + end
