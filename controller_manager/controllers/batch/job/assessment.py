"""The assessment of a job: what its pods mean, before anything is written."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.batch.v1 import Job, UncountedTerminatedPods
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting, labels_of
from controller_manager.api.pods import is_active, is_terminal, is_terminating
from controller_manager.controllers.batch.job.back_off import BackOff
from controller_manager.controllers.batch.job.failure_policy import counts
from controller_manager.controllers.batch.job.index_failures import (
    ends_index,
    pods_to_replace,
)
from controller_manager.controllers.batch.job.indexes import (
    IndexSet,
    completion_index,
    indexes_of,
)
from controller_manager.controllers.batch.job.spec import (
    index_count,
    is_failed,
    is_indexed,
)

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
"""Pods have it until they are counted."""

_CONTROLLER_UIDS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
"""Labels that the API server adds to the template; the second is an older name."""

ReadIndexes = Callable[[str, int], IndexSet]
"""Returns the indexes of a text that are below a number of completions."""

NO_PODS: Final = UncountedTerminatedPods()

NO_BACK_OFF: Final = BackOff()


class Assessment(Struct, frozen=True, kw_only=True):
    """A job and its pods at the beginning of a sync; an immutable value.

    Upstream: syncJobCtx.
    """

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
    """How many pods have succeeded and failed, the uncounted ones included. For an
    indexed job the number of indexes that succeeded."""

    completed_before: IndexSet = IndexSet()
    """The indexes that succeeded, as the status has them; empty without indexes."""

    completed: IndexSet = IndexSet()
    """The indexes that have succeeded now."""

    failed_indexes: IndexSet | None = None
    """The indexes that have failed for good; `None` without a limit per index."""

    to_replace: Mapping[int, Pod] = {}
    """The last failed pods of the indexes that need a replacement, by index. They
    keep their finalizer until then. Empty without a limit per index."""

    back_off: BackOff = NO_BACK_OFF
    """The back-off after the pods that have newly ended."""

    spares_terminating: bool = False
    """Whether pods that are being deleted count as failed in no case."""

    def fails(self, pod: Pod) -> bool:
        """Tell whether a pod counts as failed."""
        return _fails(pod, self.job, spare=self.spares_terminating)

    @property
    def uncounted(self) -> UncountedTerminatedPods:
        """The pods that the status mentions and does not count yet."""
        return self.job.status.uncounted_terminated_pods or NO_PODS

    @property
    def has_ended_pods(self) -> bool:
        """Whether there are pods that must be counted."""
        uncounted = self.uncounted
        return bool(
            self.newly_succeeded
            or self.newly_failed
            or uncounted.succeeded
            or uncounted.failed
        )


def has_finalizer(pod: Pod) -> bool:
    """Tell whether a pod is tracked: it has the finalizer of jobs."""
    return FINALIZER in (pod.metadata.finalizers or ())


def is_uncounted(job: Job, pod: Pod) -> bool:
    """Tell whether a pod that the job adopts must be counted: it gets the finalizer.

    A pod with the job's uid as label was made by the job. If such a pod has ended and
    has no finalizer, it was counted before it lost its owner. Upstream counts it again.
    """
    made = any(labels_of(pod).get(key) == job.metadata.uid for key in _CONTROLLER_UIDS)
    return has_finalizer(pod) or not (made and is_terminal(pod))


def assess(
    job: Job,
    pods: Sequence[Pod],
    *,
    released: AbstractSet[str] = frozenset(),
    back_off: BackOff | None = None,
    spare_terminating: bool = False,
    read: ReadIndexes = IndexSet.parse,
) -> Assessment:
    """Return the assessment of a job that has these pods.

    `released` are the uids of pods whose finalizer was removed, though the cache may
    still show it. `back_off` is the back-off after the pods that were counted before;
    without it, it follows from the pods that are left.
    With `spare_terminating` no pod that is being deleted counts as failed. `read`
    returns the indexes of a text in the status.
    """
    tracked = [
        pod for pod in pods if has_finalizer(pod) and pod.metadata.uid not in released
    ]
    if is_indexed(job):
        tracked.sort(key=_index_order)
    valid = [pod for pod in tracked if has_valid_index(pod, job)]
    mentioned = job.status.uncounted_terminated_pods or NO_PODS
    # A pod that was mentioned as failed may have succeeded since; it counts once.
    known = frozenset((*(mentioned.succeeded or ()), *(mentioned.failed or ())))
    succeeded = _unmentioned(
        (pod for pod in valid if pod.status.phase == "Succeeded"), known
    )
    all_failed = [pod for pod in valid if _fails(pod, job, spare=spare_terminating)]
    failed = _unmentioned(all_failed, known)
    common = Assessment(
        job=job,
        pods=tuple(pods),
        active=tuple(pod for pod in pods if is_active(pod)),
        terminating=tuple(pod for pod in pods if is_terminating(pod)),
        tracked=tuple(tracked),
        newly_succeeded=succeeded,
        newly_failed=failed,
        succeeded=_total_succeeded(job, succeeded),
        failed=_total_failed(job, failed),
        back_off=(
            _back_off_of(pods, failed)
            if back_off is None
            else back_off.after(succeeded, failed)
        ),
        spares_terminating=spare_terminating,
    )
    if not is_indexed(job):
        return common
    return _with_indexes(common, valid, all_failed, read)


def _total_succeeded(job: Job, newly: Sequence[Pod]) -> int:
    """Return how many pods have succeeded, the uncounted ones included."""
    mentioned = job.status.uncounted_terminated_pods or NO_PODS
    return job.status.succeeded + len(mentioned.succeeded or ()) + len(newly)


def _total_failed(job: Job, newly: Iterable[Pod]) -> int:
    """Return how many pods have failed; those that the policy ignores do not count."""
    mentioned = job.status.uncounted_terminated_pods or NO_PODS
    policy = job.spec.pod_failure_policy
    counted = sum(1 for pod in newly if counts(policy, pod))
    return job.status.failed + len(mentioned.failed or ()) + counted


def _with_indexes(
    assessment: Assessment,
    valid: Iterable[Pod],
    failed: Iterable[Pod],
    read: ReadIndexes,
) -> Assessment:
    """Add the indexes that have succeeded or failed, from tracked pods.

    No index does both, because the API server would refuse each status that says so:
    what the status has is final, and a success has precedence over a failure.
    """
    job = assessment.job
    count = index_count(job)
    before = read(job.status.completed_indexes, count)
    failed_before = read(job.status.failed_indexes or "", count)
    completed = before.union(
        indexes_of(
            pod
            for pod in valid
            if pod.status.phase == "Succeeded"
            and completion_index(pod) not in failed_before
        )
    )
    assessment = replace(
        assessment,
        completed_before=before,
        completed=completed,
        succeeded=len(completed),
    )
    limit = job.spec.backoff_limit_per_index
    if limit is None:
        return assessment
    policy = job.spec.pod_failure_policy
    failed_indexes = failed_before.union(
        indexes_of(
            pod
            for pod in failed
            if completion_index(pod) not in completed and ends_index(policy, pod, limit)
        )
    )
    settled = (completed, failed_indexes, indexes_of(assessment.active))
    return replace(
        assessment,
        failed_indexes=failed_indexes,
        to_replace=pods_to_replace(failed, settled),
    )


def _back_off_of(pods: Iterable[Pod], newly_failed: Iterable[Pod]) -> BackOff:
    """Return the back-off after all pods that are left, counted before or not.

    Pods that are being deleted and were counted before may have been surplus pods,
    which did not fail.
    """
    pods = list(pods)
    failed = {pod.metadata.uid: pod for pod in newly_failed}
    failed |= {
        pod.metadata.uid: pod
        for pod in pods
        if pod.status.phase == "Failed" and not is_deleting(pod)
    }
    succeeded = [pod for pod in pods if pod.status.phase == "Succeeded"]
    return NO_BACK_OFF.after(succeeded, failed.values())


def _fails(pod: Pod, job: Job, *, spare: bool) -> bool:
    return is_failed(pod, job) and not (spare and is_deleting(pod))


def has_valid_index(pod: Pod, job: Job) -> bool:
    """Tell whether the pod has an index of the job; true without indexes."""
    if not is_indexed(job):
        return True
    index = completion_index(pod)
    return index is not None and index < index_count(job)


def _index_order(pod: Pod) -> int:
    index = completion_index(pod)
    return -1 if index is None else index


def _unmentioned(pods: Iterable[Pod], known: AbstractSet[str]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.metadata.uid not in known)
