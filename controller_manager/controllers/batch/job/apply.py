"""The writes of the job controller.

The pods of a job, as they are created (manageJob, indexed_job_utils.go).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from controller_manager.api.batch import v1
from controller_manager.api.batch.v1 import JOBS, Job, JobStatus
from controller_manager.api.core.v1 import (
    JOB_COMPLETION_INDEX,
    PODS,
    Pod,
    PodTemplateSpec,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import key_of, raw_json
from controller_manager.api.owners import controller_reference
from controller_manager.api.resource import metadata_of
from controller_manager.client.client import Client, PatchType
from controller_manager.client.errors import (
    NotFound,
    gravest,
    is_about,
    is_namespace_terminating,
    may_be_applied,
)
from controller_manager.client.events import NORMAL, WARNING, EventRecorder
from controller_manager.control.expectations import Expectations
from controller_manager.control.pod_control import PodControl, pod_from_template
from controller_manager.control.slow_start import slow_start

from . import conditions
from .actions import Create, Delete, Plan, Wait
from .backoff import annotations_of_replacement
from .completion_indexes import IndexTexts
from .metrics import JobMetrics
from .spec import has_limit_per_index
from .uncounted_pods import PodWrites
from .view import FINALIZER, JobView, has_finalizer

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


_TOO_MANY: Final = "Too many succeeded pods running after completion count reached"


async def remove_finalizer(
    client: Client, pod: Pod, *, unless_changed: bool = False
) -> None:
    """Remove the finalizer of jobs from a pod; do nothing if the pod is gone.

    The uid is a precondition: a later pod of this name keeps its finalizer. With
    `unless_changed`, raises Conflict if the pod differs from the cached one.
    """
    metadata = pod.metadata
    changes: dict[str, Any] = {
        "$deleteFromPrimitiveList/finalizers": [FINALIZER],
        "uid": metadata.uid,
    }
    if unless_changed:
        changes["resourceVersion"] = metadata.resource_version
    try:
        await client.patch(
            metadata_of(PODS),
            metadata.namespace,
            metadata.name,
            {"metadata": changes},
            PatchType.STRATEGIC,
        )
    except NotFound as error:
        if not is_about(error, metadata.name):
            raise


class JobApplier:
    """Creates, deletes and releases pods, and writes statuses."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        expectations: Expectations,
        metrics: JobMetrics,
        indexes: IndexTexts,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._expectations = expectations
        self._metrics = metrics
        self._indexes = indexes
        self._pods = PodControl(client, recorder, JOBS)

    # The number of pods.

    async def carry_out(self, view: JobView, plan: Plan, group: str = "") -> PodWrites:
        """Create or delete the pods of a plan; return the numbers.

        New pods are scheduled together with the `group` of that name.
        """
        match plan:
            case Create():
                return await self._create(view, plan, group)
            case Delete(pods=pods):
                return await self._delete_surplus(view.job, pods)
            case Wait() | None:
                return PodWrites(decided=True)

    async def delete_active(self, view: JobView) -> PodWrites:
        """Delete all active pods of a job that ends; they keep their finalizer."""
        job = view.job

        async def delete(pod: Pod) -> None:
            await self._delete(job, pod)

        deleted, failure = await _each(view.active, delete)
        return PodWrites(deleted=deleted, failure=failure)

    async def _create(self, view: JobView, plan: Create, group: str) -> PodWrites:
        job, key = view.job, key_of(view.job)
        bodies = pod_bodies(job, plan, group)
        created = failed = 0

        async def create_one() -> None:
            nonlocal created, failed
            try:
                await self._pods.create(job, next(bodies))
            except Exception as error:
                failed += 1
                if may_be_applied(error):
                    self._expectations.outcome_unknown(key)
                else:
                    self._expectations.creations_settled(key)
                raise
            created += 1

        self._expectations.expect_creations(key, plan.count)
        started, failure = await slow_start(plan.count, create_one)
        # The watch never shows the creations that were not tried.
        self._expectations.creations_settled(key, plan.count - started)
        self._metrics.pods_created(view, created, failed)
        if failure is not None and is_namespace_terminating(failure):
            failure = None  # a terminating namespace takes no new objects
        return PodWrites(decided=True, created=created, failure=failure)

    async def _delete_surplus(self, job: Job, pods: Sequence[Pod]) -> PodWrites:
        """Delete surplus pods; without the finalizer they are not counted.

        A pod that has ended meanwhile must be counted, so it keeps its finalizer.
        """
        key = key_of(job)

        async def delete_one(pod: Pod) -> None:
            try:
                if has_finalizer(pod):
                    await remove_finalizer(self._client, pod, unless_changed=True)
                await self._delete(job, pod)
            except Exception:
                self._expectations.deletion_settled(key, pod.metadata.uid)
                raise

        self._expectations.expect_deletions(key, {pod.metadata.uid for pod in pods})
        deleted, failure = await _each(pods, delete_one)
        return PodWrites(decided=True, deleted=deleted, failure=failure)

    async def _delete(self, job: Job, pod: Pod) -> None:
        try:
            await self._pods.delete(job, pod)
        except NotFound as error:
            if not is_about(error, pod.metadata.name):
                raise
            self._expectations.deletion_settled(key_of(job), pod.metadata.uid)

    # Finalizers and the status.

    async def release(
        self, pods: Iterable[Pod]
    ) -> tuple[frozenset[str], Exception | None]:
        """Remove the finalizers of pods.

        Returns the uids of the pods that lost it, and the gravest failure.
        """

        async def release_one(pod: Pod) -> None:
            await remove_finalizer(self._client, pod)

        released, failure = await _each(tuple(pods), release_one)
        return frozenset(pod.metadata.uid for pod in released), failure

    async def write_status(self, job: Job, status: JobStatus) -> Job:
        """Write the status if it differs from the job's; return the job as stored.

        Then update the metrics and record the events of the new status.
        """
        if status == job.status:
            return job
        stored = await self._client.update(JOBS, replace(job, status=status), "status")
        read = partial(self._indexes.read, key_of(job))
        self._metrics.counted(job, job.status, status, read)
        self._record_conditions(stored, job.status, status)
        return stored

    def _record_conditions(self, job: Job, old: JobStatus, new: JobStatus) -> None:
        """Record the events of conditions that have changed."""
        before = old.conditions or ()
        for condition in new.conditions or ():
            if condition in before:
                continue
            match condition.type:
                case conditions.SUSPENDED:
                    reason = "Suspended" if condition.status == "True" else "Resumed"
                    self._event(job, NORMAL, reason, condition.message)
                case v1.FAILED:
                    self._event(job, WARNING, condition.reason, condition.message)
                    self._metrics.finished(job, condition.reason, failed=True)
                case v1.COMPLETE:
                    self._record_completion(job, new)
                    self._metrics.finished(job, condition.reason, failed=False)

    def _record_completion(self, job: Job, status: JobStatus) -> None:
        completions = job.spec.completions
        if completions is not None and status.succeeded > completions:
            self._event(job, WARNING, "TooManySucceededPods", _TOO_MANY)
        self._event(job, NORMAL, "Completed", "Job completed")

    def _event(self, job: Job, event_type: str, reason: str, message: str) -> None:
        self._recorder.event(JOBS, job, event_type, reason, message)


async def _each(
    pods: Sequence[Pod], write: Callable[[Pod], Awaitable[None]]
) -> tuple[tuple[Pod, ...], Exception | None]:
    """Write for all pods at once; return those that were written, and a failure."""
    results = await asyncio.gather(
        *(write(pod) for pod in pods), return_exceptions=True
    )
    done: list[Pod] = []
    failures: list[Exception] = []
    for pod, result in zip(pods, results, strict=True):
        if result is None:
            done.append(pod)
        elif isinstance(result, Exception):
            failures.append(result)
        else:
            raise result  # a cancellation must not be swallowed
    return tuple(done), gravest(failures)
