"""The pods of a job: which it has, which it wants, and how they are created.

`tally_of` sorts and counts the pods at the beginning of a sync (syncJob). `plan_pods`
returns the pods to create or to delete (manageJob), and `pod_bodies` those to create,
as they are sent (job_controller.go, indexed_job_utils.go).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from controller_manager.api.batch.v1 import (
    JOBS,
    Job,
    JobStatus,
    UncountedTerminatedPods,
)
from controller_manager.api.core.v1 import JOB_COMPLETION_INDEX, Pod, PodTemplateSpec
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import (
    controller_reference,
    is_deleting,
    labels_of,
    raw_json,
)
from controller_manager.api.pods import (
    is_active,
    is_ready,
    is_terminal,
    is_terminating,
    ready_condition,
)
from controller_manager.api.scalars import parse_time
from controller_manager.control.pod_control import pod_from_template
from controller_manager.control.replicas.ranking import most_restarts

from . import failures
from .indexes import IndexSet, completion_index, first_pending, indexes_of

INDEXED: Final = "Indexed"
NON_INDEXED: Final = "NonIndexed"

CONTROLLER_NAME: Final = "kubernetes.io/job-controller"
"""The value of ``spec.managedBy`` that names this controller."""

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
"""Pods have it until they are counted."""

MOST_PODS: Final = 500
"""The most pods that one sync creates, or deletes because they are too many.

The pods of a job that ends or is suspended are deleted together.
"""

ReadIndexes = Callable[[str, int], IndexSet]
"""Returns the indexes of a text that are below a number of completions."""

_CONTROLLER_UIDS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
"""Labels that the API server adds to the template; the second is an older name."""

# The fields of a job's spec, with the API server's defaults.


def external_manager(job: Job) -> str | None:
    """Return the name of the other controller that manages the job, if any."""
    name = job.spec.managed_by
    return None if name in (None, CONTROLLER_NAME) else name


def completion_mode(job: Job) -> str:
    """Return the completion mode."""
    return job.spec.completion_mode or NON_INDEXED


def is_indexed(job: Job) -> bool:
    """Tell whether each pod has a completion index."""
    return job.spec.completion_mode == INDEXED


def is_suspended(job: Job) -> bool:
    """Tell whether the job is suspended: then it has no pods."""
    return bool(job.spec.suspend)


def parallelism(job: Job) -> int:
    """Return the number of pods that may run at a time."""
    return 1 if job.spec.parallelism is None else job.spec.parallelism


def index_count(job: Job) -> int:
    """Return the number of indexes of an indexed job: its completions."""
    return job.spec.completions or 0


def has_limit_per_index(job: Job) -> bool:
    """Tell whether each index has a limit of its own."""
    return is_indexed(job) and job.spec.backoff_limit_per_index is not None


def replaces_only_failed(job: Job) -> bool:
    """Tell whether a terminating pod is replaced only when it has ended."""
    spec = job.spec
    return spec.pod_replacement_policy == "Failed" or (
        spec.pod_failure_policy is not None
    )


# The pods that a job has.


class Tally(Struct, frozen=True, kw_only=True):
    """A job and its pods at the beginning of a sync (syncJobCtx)."""

    job: Job

    pods: tuple[Pod, ...]
    """All pods of the job."""

    active: tuple[Pod, ...]
    """The pods that have not ended and are not being deleted."""

    terminating: tuple[Pod, ...]
    """The pods that are being deleted and have not ended."""

    tracked: tuple[Pod, ...]
    """The pods with the finalizer; those of an indexed job by their index."""

    newly_succeeded: tuple[Pod, ...]
    newly_failed: tuple[Pod, ...]
    """The tracked pods that have ended and that no status has mentioned yet."""

    succeeded: int
    failed: int
    """The numbers of succeeded and failed pods, with the uncounted ones. For an indexed
    job, `succeeded` is the number of indexes."""

    backoff: failures.BackoffRecord
    """The backoff after the newly ended pods."""

    spares_terminating: bool
    """True if pods that are being deleted never count as failed."""

    completed_before: IndexSet = IndexSet()
    """The indexes that succeeded, as the status has them; empty without indexes."""

    completed: IndexSet = IndexSet()
    """The indexes that have succeeded now."""

    failed_indexes: IndexSet | None = None
    """The indexes that have failed for good; `None` without a limit per index."""

    to_replace: Mapping[int, Pod] = {}
    """The last failed pods of the indexes that need a replacement, by index. They
    keep their finalizer until then. Empty without a limit per index."""

    def fails(self, pod: Pod) -> bool:
        """Tell whether a pod counts as failed."""
        return _fails(pod, self.job, spare=self.spares_terminating)

    @property
    def has_ended_pods(self) -> bool:
        """True if there are pods that must be counted."""
        mentioned = any(mentioned_in(self.job.status))
        return bool(mentioned or self.newly_succeeded or self.newly_failed)


def mentioned_in(status: JobStatus) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the uids of the succeeded and of the failed pods that are not counted."""
    mentioned = status.uncounted_terminated_pods or UncountedTerminatedPods()
    return mentioned.succeeded or (), mentioned.failed or ()


def has_finalizer(pod: Pod) -> bool:
    """Tell whether a pod is tracked: it has the finalizer of jobs."""
    return FINALIZER in (pod.metadata.finalizers or ())


def is_uncounted(job: Job, pod: Pod) -> bool:
    """Tell whether an adopted pod must be counted: then it gets the finalizer."""
    # A pod with the job's uid as label was made by the job. If it has ended and has no
    # finalizer, it was counted before it lost its owner. Upstream counts it again.
    made = any(labels_of(pod).get(key) == job.metadata.uid for key in _CONTROLLER_UIDS)
    return has_finalizer(pod) or not (made and is_terminal(pod))


def has_valid_index(pod: Pod, job: Job) -> bool:
    """Tell whether the pod has an index of the job; true without indexes."""
    if not is_indexed(job):
        return True
    index = completion_index(pod)
    return index is not None and index < index_count(job)


def tally_of(
    job: Job,
    pods: Sequence[Pod],
    *,
    released: AbstractSet[str] = frozenset(),
    backoff: failures.BackoffRecord | None = None,
    spare_terminating: bool = False,
    read: ReadIndexes = IndexSet.parse,
) -> Tally:
    """Sort and count the pods of a job.

    `released` are the uids of pods whose finalizer was removed, though the cache may
    still show it. `backoff` is the backoff after the pods that were counted before;
    without it, the backoff follows from the pods that are left. With
    `spare_terminating` no pod that is being deleted counts as failed. `read` returns
    the indexes of a text in the status.
    """
    tracked = _tracked_pods(job, pods, released)
    valid = [pod for pod in tracked if has_valid_index(pod, job)]
    all_succeeded = [pod for pod in valid if pod.status.phase == "Succeeded"]
    all_failed = [pod for pod in valid if _fails(pod, job, spare=spare_terminating)]
    # A pod that was mentioned as failed may have succeeded since; it counts once.
    status = job.status
    before, failed_before = mentioned_in(status)
    known = frozenset((*before, *failed_before))
    succeeded = [pod for pod in all_succeeded if pod.metadata.uid not in known]
    failed = [pod for pod in all_failed if pod.metadata.uid not in known]
    if backoff is None:
        backoff = _backoff_of(pods, failed)
    else:
        backoff = backoff.after(succeeded, failed)
    tally = Tally(
        job=job,
        pods=tuple(pods),
        active=tuple(filter(is_active, pods)),
        terminating=tuple(filter(is_terminating, pods)),
        tracked=tuple(tracked),
        newly_succeeded=tuple(succeeded),
        newly_failed=tuple(failed),
        succeeded=status.succeeded + len(before) + len(succeeded),
        failed=status.failed + len(failed_before) + _counted(job, failed),
        backoff=backoff,
        spares_terminating=spare_terminating,
    )
    if not is_indexed(job):
        return tally
    return _with_indexes(tally, all_succeeded, all_failed, read)


def _tracked_pods(
    job: Job, pods: Iterable[Pod], released: AbstractSet[str]
) -> list[Pod]:
    found = (pod for pod in pods if pod.metadata.uid not in released)
    tracked = list(filter(has_finalizer, found))
    return sorted(tracked, key=_index_order) if is_indexed(job) else tracked


def _counted(job: Job, failed: Iterable[Pod]) -> int:
    policy = job.spec.pod_failure_policy
    return sum(failures.counts(policy, pod) for pod in failed)


def _with_indexes(
    tally: Tally, succeeded: Iterable[Pod], failed: Iterable[Pod], read: ReadIndexes
) -> Tally:
    # No index succeeds and fails, because the API server would refuse each status that
    # says so: the indexes in the status are final, and a success has precedence over a
    # failure.
    job = tally.job
    count = index_count(job)
    before = read(job.status.completed_indexes, count)
    failed_before = read(job.status.failed_indexes or "", count)
    completed = before.union(
        indexes_of(
            pod for pod in succeeded if completion_index(pod) not in failed_before
        )
    )
    tally = replace(
        tally, completed_before=before, completed=completed, succeeded=len(completed)
    )
    limit = job.spec.backoff_limit_per_index
    if limit is None:
        return tally
    policy = job.spec.pod_failure_policy
    failed_indexes = failed_before.union(
        indexes_of(
            pod
            for pod in failed
            if completion_index(pod) not in completed
            and failures.ends_index(policy, pod, limit)
        )
    )
    settled = (completed, failed_indexes, indexes_of(tally.active))
    return replace(
        tally,
        failed_indexes=failed_indexes,
        to_replace=failures.pods_to_replace(failed, settled),
    )


def _backoff_of(
    pods: Iterable[Pod], newly_failed: Iterable[Pod]
) -> failures.BackoffRecord:
    # Pods that are being deleted and were counted before may have been surplus pods,
    # which did not fail.
    pods = list(pods)
    failed = {pod.metadata.uid: pod for pod in newly_failed}
    failed |= {
        pod.metadata.uid: pod
        for pod in pods
        if pod.status.phase == "Failed" and not is_deleting(pod)
    }
    succeeded = [pod for pod in pods if pod.status.phase == "Succeeded"]
    return failures.BackoffRecord().after(succeeded, failed.values())


def _fails(pod: Pod, job: Job, *, spare: bool) -> bool:
    # A pod that is being deleted counts at once, because it may never get the phase
    # Failed; it does not if only failed pods are replaced (isPodFailed).
    if spare and is_deleting(pod):
        return False
    if pod.status.phase == "Failed":
        return True
    if replaces_only_failed(job) or pod.status.phase == "Succeeded":
        return False
    return is_deleting(pod)


def _index_order(pod: Pod) -> int:
    index = completion_index(pod)
    return -1 if index is None else index


# The pods that a job wants.


class PodPlan(Struct, frozen=True):
    """What a sync does about the number of pods: delete, create, or wait."""

    create: int = 0
    indexes: tuple[int, ...] = ()
    """The index of each pod to create; empty for a job without indexes."""

    delete: tuple[Pod, ...] = ()
    """Surplus pods, which do not count as failed."""

    wait: float = 0.0
    """The seconds until the backoff lets pods be created."""


NO_CHANGE: Final = PodPlan()
"""There are as many pods as needed."""


def plan_pods(tally: Tally, now: datetime) -> PodPlan:
    """Return the pods to create or to delete, never both (manageJob)."""
    active = len(tally.active)
    if is_suspended(tally.job):
        return PodPlan(delete=tuple(_surplus(tally, active)))
    wanted = _wanted_active(tally)
    surplus = _surplus(tally, max(active - wanted, 0))
    if surplus:
        return PodPlan(delete=tuple(surplus[:MOST_PODS]))
    missing = wanted - active
    if replaces_only_failed(tally.job):
        missing -= len(tally.terminating)
    return _creation(tally, missing, now) if missing > 0 else NO_CHANGE


def _wanted_active(tally: Tally) -> int:
    job = tally.job
    completions = job.spec.completions
    if completions is None:
        # After the first success no pod is added; active pods go on.
        return len(tally.active) if tally.succeeded else parallelism(job)
    return max(0, min(completions - tally.succeeded, parallelism(job)))


def _creation(tally: Tally, missing: int, now: datetime) -> PodPlan:
    job = tally.job
    if not has_limit_per_index(job):
        wait = tally.backoff.remaining(now)
        if wait > 0:
            return PodPlan(wait=wait)
    count = min(missing, MOST_PODS)
    if not is_indexed(job):
        return PodPlan(create=count)
    indexes = first_pending(_taken_indexes(tally), count, index_count(job))
    if has_limit_per_index(job):
        # Only the lowest indexes are considered, as upstream: an index that must
        # wait holds back the indexes after it.
        indexes, wait = failures.may_start(indexes, tally.to_replace, now)
        if wait > 0:
            return PodPlan(wait=wait)
    return PodPlan(create=len(indexes), indexes=tuple(indexes))


def _taken_indexes(tally: Tally) -> IndexSet:
    taken = tally.completed.union(indexes_of(tally.active))
    if replaces_only_failed(tally.job):
        taken = taken.union(indexes_of(tally.terminating))
    if tally.failed_indexes is not None:
        taken = taken.union(tally.failed_indexes)
    return taken


def _surplus(tally: Tally, at_least: int) -> list[Pod]:
    # Pods of an indexed job come first that have no index below its completions, and
    # all but one of the pods with the same index (activePodsForRemoval).
    surplus: list[Pod] = []
    left = list(tally.active)
    if is_indexed(tally.job):
        surplus, left = _split_surplus(left, index_count(tally.job))
    more = at_least - len(surplus)
    return [*surplus, *in_deletion_order(left)[:more]] if more > 0 else surplus


def _split_surplus(pods: Iterable[Pod], count: int) -> tuple[list[Pod], list[Pod]]:
    surplus: list[Pod] = []
    by_index: dict[int, list[Pod]] = {}
    for pod in pods:
        index = completion_index(pod)
        if index is None or index >= count:
            surplus.append(pod)
        else:
            by_index.setdefault(index, []).append(pod)
    left = []
    for same in by_index.values():
        *others, kept = in_deletion_order(same)
        surplus += others
        left.append(kept)
    return surplus, left


_PHASES: Final[Mapping[str, int]] = {"Pending": 0, "Unknown": 1, "Running": 2}


def in_deletion_order(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods in the order of deletion (ActivePods, controller_utils.go)."""
    # Pods that are not assigned, pending or not ready come first, then pods that have
    # been ready for the shortest time, have restarted most, or are youngest.
    return sorted(pods, key=_rank)


def _rank(pod: Pod) -> tuple[object, ...]:
    ready = is_ready(pod)
    restarts, sidecar_restarts = most_restarts(pod)
    condition = ready_condition(pod) if ready else None
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        ready,
        _latest_first(condition.last_transition_time if condition else None),
        -restarts,
        -sidecar_restarts,
        _latest_first(pod.metadata.creation_timestamp),
    )


def _latest_first(time: str | None) -> float:
    return -parse_time(time).timestamp() if time else -math.inf


# The pods that are created.

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


def pod_bodies(tally: Tally, plan: PodPlan, group: str = "") -> Iterator[bytes]:
    """Yield the bodies of the pods to create; pods of a gang name their `group`."""
    job = tally.job
    reference = controller_reference(job, JOBS)
    template = _tracked(job.spec.template)
    if not plan.indexes:
        body = pod_from_template(template, job, reference)
        yield from (body for _ in range(plan.create))
        return
    spec = _with_variable(template)
    if group:
        spec["schedulingGroup"] = raw_json({"podGroupName": group})
    for index in plan.indexes:
        indexed = _with_index(template, spec, job, index, tally.to_replace.get(index))
        # If the name is too long, the job's part is cut, not the index.
        end = f"-{index}-"
        prefix = job.metadata.name[: _LONGEST_PREFIX - len(end)] + end
        yield pod_from_template(indexed, job, reference, prefix)


def _tracked(template: PodTemplateSpec) -> PodTemplateSpec:
    metadata = template.metadata
    finalizers = metadata.finalizers or ()
    if FINALIZER in finalizers:
        return template
    metadata = replace(metadata, finalizers=(*finalizers, FINALIZER))
    return replace(template, metadata=metadata)


def _with_variable(template: PodTemplateSpec) -> _Spec:
    """Encode the spec once for all pods; the containers get their index as variable."""
    spec = msgspec.json.decode(template.spec, type=_Spec)
    for field in ("initContainers", "containers"):
        if field in spec:
            containers: list[JSON] = msgspec.json.decode(spec[field]) or []
            for container in containers:
                present = container.get("env") or []
                if all(each["name"] != _VARIABLE["name"] for each in present):
                    container["env"] = [*present, _VARIABLE]
            spec[field] = raw_json(containers)
    return spec


def _with_index(
    template: PodTemplateSpec, spec: _Spec, job: Job, index: int, replaced: Pod | None
) -> PodTemplateSpec:
    metadata = template.metadata
    mark = {JOB_COMPLETION_INDEX: str(index)}
    annotations = {**(metadata.annotations or {}), **mark}
    if has_limit_per_index(job):
        policy = job.spec.pod_failure_policy
        annotations |= failures.annotations_of_replacement(policy, replaced)
    labels = {**(metadata.labels or {}), **mark}
    hostname = raw_json(f"{job.metadata.name}-{index}")
    return replace(
        template,
        metadata=replace(metadata, labels=labels, annotations=annotations),
        spec=raw_json({**spec, "hostname": hostname}),
    )
