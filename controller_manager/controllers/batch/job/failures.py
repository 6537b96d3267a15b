"""Failed pods: what a failure means, and what it delays.

The first rule of podFailurePolicy that matches says what the failure of a pod means
(pod_failure_policy.go).

The first failure delays the next pod by 10 s, each further one by twice as much as
the one before, at most 10 minutes. The time counts from the end of the containers
(backoff_utils.go).

The number of failures of an index stands in annotations of its newest pod. So a failed
pod keeps its finalizer, and stays, until its replacement has taken over the counts
(getPodsWithDelayedDeletionPerIndex and getNewIndexFailureCounts, indexed_job_utils.go).
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from controller_manager.api.batch import v1
from controller_manager.api.core.v1 import (
    JOB_INDEX_FAILURE_COUNT,
    JOB_INDEX_IGNORED_FAILURE_COUNT,
    ContainerStatus,
    Pod,
)
from controller_manager.api.meta import APIStruct
from controller_manager.api.pods import ready_condition
from controller_manager.api.scalars import parse_int, parse_time, seconds_after

from .indexes import completion_index

# The failure policy.

FAIL_JOB: Final = "FailJob"
FAIL_INDEX: Final = "FailIndex"
IGNORE: Final = "Ignore"
COUNT: Final = "Count"

_ACTIONS: Final = frozenset((FAIL_JOB, FAIL_INDEX, IGNORE, COUNT))


class MatchedAction(Struct, frozen=True):
    """The action of the first rule that matches a failed pod."""

    action: str
    """FailJob, FailIndex, Ignore or Count."""

    message: str = ""
    """The reason for which the job fails; empty for other actions than FailJob."""


def match(policy: v1.PodFailurePolicy | None, pod: Pod) -> MatchedAction | None:
    """Return the action of the first matching rule, `None` for no rule."""
    # An action that this version does not know is skipped.
    for number, rule in enumerate(policy.rules or () if policy is not None else ()):
        if rule.action not in _ACTIONS:
            continue
        found = _found(rule, pod)
        if found is None:
            continue
        if rule.action != FAIL_JOB:
            return MatchedAction(rule.action)
        return MatchedAction(
            FAIL_JOB, f"{found} matching {rule.action} rule at index {number}"
        )
    return None


def counts(policy: v1.PodFailurePolicy | None, pod: Pod) -> bool:
    """Tell whether a failed pod counts towards backoffLimit: not if it is ignored."""
    matched = match(policy, pod)
    return matched is None or matched.action != IGNORE


def fails_job(policy: v1.PodFailurePolicy | None, pod: Pod) -> bool:
    """Tell whether the job fails because of a failed pod."""
    matched = match(policy, pod)
    return matched is not None and matched.action == FAIL_JOB


def _found(rule: v1.PodFailurePolicyRule, pod: Pod) -> str | None:
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        ended = _exited(rule.on_exit_codes, pod)
        if ended is None:
            return None
        container, code = ended
        return f"Container {container} for pod {name} failed with exit code {code}"
    condition = _condition(rule.on_pod_conditions or (), pod)
    return None if condition is None else f"Pod {name} has condition {condition}"


def _exited(
    requirement: v1.PodFailurePolicyOnExitCodesRequirement, pod: Pod
) -> tuple[str, int] | None:
    # Containers come before init containers. Exit code 0 never matches, not even NotIn.
    for status in (
        *(pod.status.container_statuses or ()),
        *(pod.status.init_container_statuses or ()),
    ):
        ended = status.state.terminated
        if ended is None or ended.exit_code == 0:
            continue
        if requirement.container_name not in (None, status.name):
            continue
        listed = ended.exit_code in (requirement.values or ())
        if requirement.operator == ("In" if listed else "NotIn"):
            return status.name, ended.exit_code
    return None


def _condition(
    patterns: Iterable[v1.PodFailurePolicyOnPodConditionsPattern], pod: Pod
) -> str | None:
    wanted = {(pattern.type, pattern.status) for pattern in patterns}
    for condition in pod.status.conditions or ():
        if (condition.type, condition.status) in wanted:
            return condition.type
    return None


# The backoff.

FIRST_DELAY: Final = 10.0
"""Seconds that the replacement of the first failed pod waits."""

LONGEST_DELAY: Final = 600.0
"""The most seconds that a replacement waits."""

_ENOUGH_DOUBLINGS: Final = 6
"""10 s doubled six times are 640 s, more than the longest delay."""

_DEFAULT_BACKOFF_LIMIT: Final = 6
_EPOCH: Final = "1970-01-01T00:00:00Z"


class BackoffRecord(Struct, frozen=True):
    """The failures of a job since its last success."""

    failures: int = 0
    last_failure: datetime | None = None
    """The time at which the containers of the last failed pod ended."""

    def after(
        self, succeeded: Collection[Pod], failed: Collection[Pod]
    ) -> "BackoffRecord":
        """Return the record with pods that have ended since; a success ends it."""
        ends = [finished_at(pod) for pod in failed]
        if succeeded:
            success = max(finished_at(pod) for pod in succeeded)
            ends = [end for end in ends if end > success]
            return BackoffRecord(len(ends), max(ends, default=None))
        if not ends:
            return self
        return BackoffRecord(self.failures + len(ends), max(ends))

    def remaining(self, now: datetime) -> float:
        """Return the seconds until the next pod may be created, 0 for at once."""
        return _remaining(self.failures, self.last_failure, now)


def delay_after(failures: int) -> float:
    """Return the seconds to wait after this many failures: 0, 10, 20, 40 … 600."""
    if failures <= 0:
        return 0.0
    return min(FIRST_DELAY * (1 << min(failures - 1, _ENOUGH_DOUBLINGS)), LONGEST_DELAY)


def _remaining(failures: int, since: datetime | None, now: datetime) -> float:
    if since is None:
        return 0.0
    return max(0.0, delay_after(failures) - (now - since).total_seconds())


def remaining_for_index(replaced: Pod | None, now: datetime) -> float:
    """Return the seconds until an index gets the next pod."""
    # Failures that the failure policy ignores count here.
    if replaced is None:
        return 0.0
    return _remaining(all_failures_of(replaced) + 1, finished_at(replaced), now)


def may_start(
    indexes: Iterable[int], replaced: Mapping[int, Pod], now: datetime
) -> tuple[list[int], float]:
    """Return the indexes that may get a pod now; without any, the seconds to wait."""
    waits = {index: remaining_for_index(replaced.get(index), now) for index in indexes}
    ready = [index for index, wait in waits.items() if wait <= 0]
    return ready, 0.0 if ready else min(waits.values(), default=0.0)


class _PodSpec(APIStruct, frozen=True):
    """The only field that is read of the template's pod spec."""

    restart_policy: str = ""


def backoff_limit(job: v1.Job) -> int:
    """Return how many pods may fail."""
    limit = job.spec.backoff_limit
    return _DEFAULT_BACKOFF_LIMIT if limit is None else limit


def exceeds_backoff_limit(job: v1.Job, pods: Iterable[Pod], failed: int) -> bool:
    """Tell whether the job fails because of its backoffLimit.

    `failed` of its pods have failed. Restarts of containers in pods that run count as
    failures, too, if failed containers are restarted in their pod. Upstream compares
    restarts by "at least", and failed pods by "more than" (pastBackoffLimitOnFailure).
    """
    limit = backoff_limit(job)
    if failed > limit:
        return True
    restarts = sum(
        status.restart_count
        for pod in pods
        if pod.status.phase in ("Running", "Pending")
        for status in (
            *(pod.status.init_container_statuses or ()),
            *(pod.status.container_statuses or ()),
        )
    )
    return restarts >= max(limit, 1) and _restarts_containers(job)


def _restarts_containers(job: v1.Job) -> bool:
    """Tell whether failed containers are restarted in their pod (OnFailure)."""
    spec = msgspec.json.decode(job.spec.template.spec, type=_PodSpec)
    return spec.restart_policy == "OnFailure"


def finished_at(pod: Pod) -> datetime:
    """Return the time at which a pod ended (getFinishedTime, backoff_utils.go)."""
    # It is the end of its last container, if all have ended; else the time at which the
    # kubelet set Ready to False; else the time at which podgc deleted the pod; else its
    # creation.
    if (ended := _containers_ended_at(pod)) is not None:
        return ended
    ready, metadata = ready_condition(pod), pod.metadata
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return parse_time(ready.last_transition_time)
    if metadata.deletion_timestamp:
        # The time of the deletion is a grace period before its deletionTimestamp.
        grace = metadata.deletion_grace_period_seconds or 0
        return seconds_after(parse_time(metadata.deletion_timestamp), -grace)
    return parse_time(metadata.creation_timestamp or _EPOCH)


def _containers_ended_at(pod: Pod) -> datetime | None:
    # As upstream's: if only one of the containers has not ended, the sidecars count
    # alone.
    sidecars = {
        container.name
        for container in pod.spec.init_containers or ()
        if container.restart_policy == "Always"
    }
    ends = _ends(pod.status.container_statuses or ())
    init_statuses = pod.status.init_container_statuses or ()
    of_sidecars = _ends(each for each in init_statuses if each.name in sidecars)
    if of_sidecars is None:
        return None
    return max((*(ends or ()), *of_sidecars), default=None)


def _ends(statuses: Iterable[ContainerStatus]) -> list[datetime] | None:
    """Return when the containers ended; `None` if one has not ended."""
    ends = []
    for status in statuses:
        ended = status.state.terminated
        if ended is None or not ended.finished_at:
            return None
        ends.append(parse_time(ended.finished_at))
    return ends


def failures_of(pod: Pod) -> int:
    """Return the failures of the index before this pod, without ignored ones."""
    # An annotation without a valid count is 0: users may have changed it.
    annotations = pod.metadata.annotations
    return _count(annotations.index_failures if annotations is not None else None)


def all_failures_of(pod: Pod) -> int:
    """Return the number of failures, with those that the failure policy ignores."""
    annotations = pod.metadata.annotations
    if annotations is None:
        return 0
    return failures_of(pod) + _count(annotations.index_ignored_failures)


def annotations_of_replacement(
    policy: v1.PodFailurePolicy | None, replaced: Pod | None
) -> dict[str, str]:
    """Return the annotations of the next pod of an index, with the counts."""
    failures = ignored = 0
    if replaced is not None:
        failures = failures_of(replaced)
        ignored = all_failures_of(replaced) - failures
        matched = match(policy, replaced)
        if matched is not None and matched.action == IGNORE:
            ignored += 1
        else:
            failures += 1
    annotations = {JOB_INDEX_FAILURE_COUNT: str(failures)}
    if ignored:
        annotations[JOB_INDEX_IGNORED_FAILURE_COUNT] = str(ignored)
    return annotations


def ends_index(policy: v1.PodFailurePolicy | None, pod: Pod, limit: int) -> bool:
    """Tell whether a failed pod makes its index fail for good."""
    # It does if the failure policy says so, or if the failure counts and the index had
    # failed `limit` times before (backoffLimitPerIndex).
    matched = match(policy, pod)
    if matched is not None and matched.action in (FAIL_INDEX, IGNORE):
        return matched.action == FAIL_INDEX
    return failures_of(pod) >= limit


def pods_to_replace(
    failed: Iterable[Pod], settled: Sequence[Container[int]]
) -> dict[int, Pod]:
    """Return the last failed pod of each index that still needs a replacement.

    These pods keep their finalizer. `settled` are sets of the indexes that need none:
    they succeeded, failed for good, or have an active pod with the counts.
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
    """Return a key that sorts by failures first: a wrong clock cannot lower counts."""
    return all_failures_of(pod), finished_at(pod)


def _count(text: str | None) -> int:
    count = parse_int(text, 32) if text is not None else None
    return count if count is not None and count >= 0 else 0
