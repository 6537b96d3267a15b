"""A job and its pods at the beginning of a sync, as an immutable value."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.batch.v1 import Job, UncountedTerminatedPods
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting, labels_of
from controller_manager.api.pods import is_active, is_terminal, is_terminating

from .backoff import BackoffRecord, ends_index, pods_to_replace
from .completion_indexes import IndexSet, completion_index, indexes_of
from .pod_failure_policy import counts
from .spec import index_count, is_failed, is_indexed

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
"""Pods have it until they are counted."""

_CONTROLLER_UIDS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
"""Labels that the API server adds to the template; the second is an older name."""

ReadIndexes = Callable[[str, int], IndexSet]
"""Returns the indexes of a text that are below a number of completions."""

NO_PODS: Final = UncountedTerminatedPods()

NO_BACKOFF: Final = BackoffRecord()


class JobView(Struct, frozen=True, kw_only=True):
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
    """The numbers of succeeded and failed pods, with the uncounted ones. For an indexed
    job, `succeeded` is the number of indexes."""

    completed_before: IndexSet = IndexSet()
    """The indexes that succeeded, as the status has them; empty without indexes."""

    completed: IndexSet = IndexSet()
    """The indexes that have succeeded now."""

    failed_indexes: IndexSet | None = None
    """The indexes that have failed for good; `None` without a limit per index."""

    to_replace: Mapping[int, Pod] = {}
    """The last failed pods of the indexes that need a replacement, by index. They
    keep their finalizer until then. Empty without a limit per index."""

    backoff: BackoffRecord = NO_BACKOFF
    """The backoff after the newly ended pods."""

    spares_terminating: bool = False
    """True if pods that are being deleted never count as failed."""

    def fails(self, pod: Pod) -> bool:
        """Tell whether a pod counts as failed."""
        return _fails(pod, self.job, spare=self.spares_terminating)

    @property
    def uncounted(self) -> UncountedTerminatedPods:
        """The pods that the status mentions and does not count yet."""
        return self.job.status.uncounted_terminated_pods or NO_PODS

    @property
    def has_ended_pods(self) -> bool:
        """True if there are pods that must be counted."""
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
    """Tell whether an adopted pod must be counted: then it gets the finalizer.

    A pod with the job's uid as label was made by the job. If this pod has ended and has
    no finalizer, it was counted before it lost its owner. Upstream counts it again.
    """
    made = any(labels_of(pod).get(key) == job.metadata.uid for key in _CONTROLLER_UIDS)
    return has_finalizer(pod) or not (made and is_terminal(pod))


def view_of(
    job: Job,
    pods: Sequence[Pod],
    *,
    released: AbstractSet[str] = frozenset(),
    backoff: BackoffRecord | None = None,
    spare_terminating: bool = False,
    read: ReadIndexes = IndexSet.parse,
) -> JobView:
    """Return the view of a job that has these pods.

    `released` are the uids of pods whose finalizer was removed, though the cache may
    still show it. `backoff` is the backoff after the pods that were counted before;
    without it, the backoff follows from the pods that are left.
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
    common = JobView(
        job=job,
        pods=tuple(pods),
        active=tuple(pod for pod in pods if is_active(pod)),
        terminating=tuple(pod for pod in pods if is_terminating(pod)),
        tracked=tuple(tracked),
        newly_succeeded=succeeded,
        newly_failed=failed,
        succeeded=_total_succeeded(job, succeeded),
        failed=_total_failed(job, failed),
        backoff=(
            _backoff_of(pods, failed)
            if backoff is None
            else backoff.after(succeeded, failed)
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
    view: JobView,
    valid: Iterable[Pod],
    failed: Iterable[Pod],
    read: ReadIndexes,
) -> JobView:
    """Add the indexes that have succeeded or failed, from tracked pods.

    No index does both, because the API server would refuse each status that says so:
    the indexes in the status are final, and a success has precedence over a failure.
    """
    job = view.job
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
    view = replace(
        view,
        completed_before=before,
        completed=completed,
        succeeded=len(completed),
    )
    limit = job.spec.backoff_limit_per_index
    if limit is None:
        return view
    policy = job.spec.pod_failure_policy
    failed_indexes = failed_before.union(
        indexes_of(
            pod
            for pod in failed
            if completion_index(pod) not in completed and ends_index(policy, pod, limit)
        )
    )
    settled = (completed, failed_indexes, indexes_of(view.active))
    return replace(
        view,
        failed_indexes=failed_indexes,
        to_replace=pods_to_replace(failed, settled),
    )


def _backoff_of(pods: Iterable[Pod], newly_failed: Iterable[Pod]) -> BackoffRecord:
    """Return the backoff after all pods that are left, counted before or not.

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
    return NO_BACKOFF.after(succeeded, failed.values())


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
