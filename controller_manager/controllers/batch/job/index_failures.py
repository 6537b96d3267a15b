"""Failures of single indexes, for jobs with backoffLimitPerIndex.

How often an index has failed stands in annotations of its newest pod. So a failed pod
keeps its finalizer, and stays, until its replacement has taken over the counts
(getPodsWithDelayedDeletionPerIndex and getNewIndexFailureCounts, indexed_job_utils.go).
"""

from collections.abc import Container, Iterable, Sequence
from datetime import datetime

from controller_manager.api.batch.v1 import PodFailurePolicy
from controller_manager.api.core.v1 import (
    JOB_INDEX_FAILURE_COUNT,
    JOB_INDEX_IGNORED_FAILURE_COUNT,
    Pod,
)
from controller_manager.api.numbers import parse_int
from controller_manager.controllers.batch.job.failure_policy import (
    FAIL_INDEX,
    IGNORE,
    match,
)
from controller_manager.controllers.batch.job.finish_time import finished_at
from controller_manager.controllers.batch.job.indexes import completion_index


def failures_of(pod: Pod) -> int:
    """Return how often the pod's index had failed before the pod was created.

    Failures that the failure policy ignores are not counted. An annotation that is
    absent or has no valid count is 0: users may have changed it.
    """
    annotations = pod.metadata.annotations
    return _count(annotations.index_failures if annotations is not None else None)


def all_failures_of(pod: Pod) -> int:
    """Return the same count, with the failures that the failure policy ignores."""
    annotations = pod.metadata.annotations
    if annotations is None:
        return 0
    return failures_of(pod) + _count(annotations.index_ignored_failures)


def annotations_of_replacement(
    policy: PodFailurePolicy | None, replaced: Pod | None
) -> dict[str, str]:
    """Return the annotations with the counts of the pod that replaces a failed one.

    The first pod of an index replaces none. The count of ignored failures is there
    only if it is not 0.
    """
    failures = ignored = 0
    if replaced is not None:
        failures = failures_of(replaced)
        ignored = all_failures_of(replaced) - failures
        verdict = match(policy, replaced)
        if verdict is not None and verdict.action == IGNORE:
            ignored += 1
        else:
            failures += 1
    annotations = {JOB_INDEX_FAILURE_COUNT: str(failures)}
    if ignored:
        annotations[JOB_INDEX_IGNORED_FAILURE_COUNT] = str(ignored)
    return annotations


def ends_index(policy: PodFailurePolicy | None, pod: Pod, limit: int) -> bool:
    """Tell whether a failed pod makes its index fail for good.

    It does if the failure policy says so, or if the failure counts and the index had
    failed `limit` times before (backoffLimitPerIndex).
    """
    verdict = match(policy, pod)
    if verdict is not None and verdict.action in (FAIL_INDEX, IGNORE):
        return verdict.action == FAIL_INDEX
    return failures_of(pod) >= limit


def pods_to_replace(
    failed: Iterable[Pod], settled: Sequence[Container[int]]
) -> dict[int, Pod]:
    """Return the last failed pod of each index that still needs a replacement.

    These pods keep their finalizer. `failed` are the failed pods that have it.
    `settled` are sets of the indexes that need no replacement: they succeeded, failed
    for good, or have an active pod, which has taken over the counts. Pods without a
    valid index are left out; those beyond spec.completions the caller leaves out.
    """
    last: dict[int, Pod] = {}
    for pod in failed:
        index = completion_index(pod)
        if index is None or any(index in each for each in settled):
            continue
        if index not in last or _order(pod) >= _order(last[index]):
            last[index] = pod
    return last


def _order(pod: Pod) -> tuple[int, datetime]:
    """Order by failures first: so a wrong clock never makes the counts smaller."""
    return all_failures_of(pod), finished_at(pod)


def _count(text: str | None) -> int:
    count = parse_int(text, 32) if text is not None else None
    return count if count is not None and count >= 0 else 0
