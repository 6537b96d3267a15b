"""The status of a deployment, its conditions, and why it is not complete.

Upstream: calculateStatus of sync.go, progress.go and deployment_util.go.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Histogram

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
    Deployment,
    DeploymentCondition,
    DeploymentStatus,
    ReplicaSet,
    desired_replicas,
)
from controller_manager.api.meta import annotations_of, find_condition
from controller_manager.api.scalars import format_time, parse_time
from controller_manager.clock import Clock
from controller_manager.control.creation_delays import Mutation
from controller_manager.runtime.outcome import Reason, waiting

from .revisions import REVISION
from .rollout import Rollout
from .scaling import max_unavailable, total_available, total_replicas

PROGRESSING: Final = "Progressing"
REPLICA_FAILURE: Final = "ReplicaFailure"

REPLICA_SET_CREATE_ERROR: Final = "ReplicaSetCreateError"
REPLICA_SET_MUTATED: Final = "ReplicaSetMutated"
"""A reason of ours: upstream says nothing of such a change."""

NEW_REPLICA_SET_AVAILABLE: Final = "NewReplicaSetAvailable"
PROGRESS_DEADLINE_EXCEEDED: Final = "ProgressDeadlineExceeded"
DEPLOYMENT_PAUSED: Final = "DeploymentPaused"

Conditions = tuple[DeploymentCondition, ...]


# Conditions.


def condition(
    type_: str, status: str, reason: str, message: str, now: datetime
) -> DeploymentCondition:
    """Return a condition that begins now."""
    timestamp = format_time(now)
    return DeploymentCondition(
        type=type_,
        status=status,
        last_update_time=timestamp,
        last_transition_time=timestamp,
        reason=reason,
        message=message,
    )


def without_condition(conditions: Conditions, type_: str) -> Conditions:
    """Return the other conditions."""
    return tuple(each for each in conditions if each.type != type_)


def with_condition(conditions: Conditions, new: DeploymentCondition) -> Conditions:
    """Return the conditions with `new` (SetDeploymentCondition)."""
    # Nothing changes if status and reason are the same. If only the status is the same,
    # the transition time stays.
    old = find_condition(conditions, new.type)
    if old is not None and (old.status, old.reason) == (new.status, new.reason):
        return conditions
    if old is not None and old.status == new.status:
        new = replace(new, last_transition_time=old.last_transition_time)
    return (*without_condition(conditions, new.type), new)


def with_progressing(deployment: Deployment, new: DeploymentCondition) -> Deployment:
    """Return the deployment with this condition in its status."""
    status = deployment.status
    conditions = with_condition(status.conditions or (), new)
    return replace(deployment, status=replace(status, conditions=conditions))


def replica_failure(
    new: ReplicaSet | None, everything: Iterable[ReplicaSet]
) -> DeploymentCondition | None:
    """Return the condition ReplicaFailure of a replica set, preferably the new one."""
    candidates = [new] if new is not None else []
    for each in (*candidates, *everything):
        for found in each.status.conditions or ():
            if found.type == REPLICA_FAILURE:
                return DeploymentCondition(
                    type=found.type,
                    status=found.status,
                    last_update_time=found.last_transition_time,
                    last_transition_time=found.last_transition_time,
                    reason=found.reason,
                    message=found.message,
                )
    return None


# The status.


def calculate_status(
    rollout: Rollout, conditions: Conditions, now: datetime, *, terminating: bool = True
) -> DeploymentStatus:
    """Return the status from the replica sets; with `conditions` and Available.

    `terminating` says whether terminating pods are counted (the feature gate
    DeploymentReplicaSetTerminatingReplicas).
    """
    deployment, everything = rollout.deployment, rollout.all
    available = total_available(everything)
    if available >= desired_replicas(deployment) - max_unavailable(deployment):
        truth, reason, verb = "True", "MinimumReplicasAvailable", "has"
    else:
        truth, reason, verb = "False", "MinimumReplicasUnavailable", "does not have"
    message = f"Deployment {verb} minimum availability."
    availability = condition("Available", truth, reason, message, now)
    new = rollout.new
    return DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(each.status.replicas for each in everything),
        updated_replicas=new.status.replicas if new is not None else 0,
        ready_replicas=sum(each.status.ready_replicas for each in everything),
        available_replicas=available,
        unavailable_replicas=max(0, total_replicas(everything) - available),
        terminating_replicas=_terminating(everything) if terminating else None,
        conditions=with_condition(conditions, availability),
        collision_count=deployment.status.collision_count,
    )


def _terminating(everything: Iterable[ReplicaSet]) -> int | None:
    # A replica set that its controller has not synced yet has no pods, so it may lack
    # the number. Others lack it if a controller synced them that does not count
    # terminating pods (GetTerminatingReplicaCountForReplicaSets).
    total = 0
    for status in (each.status for each in everything):
        if status.terminating_replicas is not None:
            total += status.terminating_replicas
        elif status.observed_generation:
            return None
    return total


def is_same(old: DeploymentStatus, new: DeploymentStatus) -> bool:
    """Tell whether two statuses are equal; absent and empty conditions are equal."""
    before = replace(old, conditions=old.conditions or None)
    return before == replace(new, conditions=new.conditions or None)


# Progress, and the condition Progressing.


def has_deadline(deployment: Deployment) -> bool:
    """Tell whether the deployment has a progress deadline."""
    deadline = deployment.spec.progress_deadline_seconds
    return deadline is not None and deadline != 2**31 - 1


def draft_of(rollout: Rollout, now: datetime) -> Deployment:
    """Return the deployment with what a sync has found out before it counts pods."""
    # That is its revision, a pause or the end of one, and a new replica set that was
    # created in this sync or found for the first time (getNewReplicaSet). A sync writes
    # all this once, at its end; upstream writes after each step.
    deployment, new = record_pause(rollout.deployment, now), rollout.new
    if new is None:
        return deployment
    revision = annotations_of(new.metadata).get(REVISION)
    if revision is not None:
        annotations = {**annotations_of(deployment.metadata), REVISION: revision}
        metadata = replace(deployment.metadata, annotations=annotations)
        deployment = replace(deployment, metadata=metadata)
    known = find_condition(deployment.status.conditions, PROGRESSING)
    if not has_deadline(deployment) or not (rollout.is_created or known is None):
        return deployment
    name = new.metadata.name
    if rollout.is_created:
        what = ("NewReplicaSetCreated", f'Created new replica set "{name}"')
    else:
        what = ("FoundNewReplicaSet", f'Found new replica set "{name}"')
    return with_progressing(deployment, condition(PROGRESSING, "True", *what, now))


def record_pause(deployment: Deployment, now: datetime) -> Deployment:
    """Record a pause and its end (checkPausedConditions)."""
    # So a pause never counts as missing progress. An exceeded deadline stays.
    if not has_deadline(deployment):
        return deployment
    current = find_condition(deployment.status.conditions, PROGRESSING)
    reason = current.reason if current is not None else ""
    if reason == PROGRESS_DEADLINE_EXCEEDED:
        return deployment
    paused = deployment.spec.paused
    if paused and reason != DEPLOYMENT_PAUSED:
        what = (DEPLOYMENT_PAUSED, "Deployment is paused")
    elif not paused and reason == DEPLOYMENT_PAUSED:
        what = ("DeploymentResumed", "Deployment is resumed")
    else:
        return deployment
    return with_progressing(deployment, condition(PROGRESSING, "Unknown", *what, now))


def reported_mutation(deployment: Deployment) -> Mutation | None:
    """Return the mutation that an earlier process has reported; a dry run is due."""
    current = find_condition(deployment.status.conditions, PROGRESSING)
    if current is None or current.reason != REPLICA_SET_MUTATED:
        return None
    return Mutation("", "spec.template", 0.0)


def with_mutation(deployment: Deployment, message: str, now: datetime) -> Deployment:
    """Return the deployment with the condition that admission changes a field."""
    failure = condition(PROGRESSING, "False", REPLICA_SET_MUTATED, message, now)
    status = deployment.status
    old = find_condition(status.conditions, PROGRESSING)
    if old is None or old.reason != REPLICA_SET_MUTATED or old.message == message:
        return with_progressing(deployment, failure)
    changed = replace(failure, last_transition_time=old.last_transition_time)
    conditions = (*without_condition(status.conditions or (), PROGRESSING), changed)
    return replace(deployment, status=replace(status, conditions=conditions))


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Tell whether all pods are new and available, and no old pod remains."""
    wanted = desired_replicas(deployment)
    return (
        status.updated_replicas == wanted
        and status.replicas == wanted
        and status.available_replicas == wanted
        and status.observed_generation >= deployment.metadata.generation
    )


def has_progressed(old: DeploymentStatus, new: DeploymentStatus) -> bool:
    """Tell whether there are more new pods, fewer old ones, or more ready ones."""
    return (
        new.updated_replicas > old.updated_replicas
        or new.replicas - new.updated_replicas < old.replicas - old.updated_replicas
        or new.ready_replicas > old.ready_replicas
        or new.available_replicas > old.available_replicas
    )


def has_timed_out(
    deployment: Deployment, current: DeploymentCondition | None, now: datetime
) -> bool:
    """Tell whether the deadline has passed since the last progress."""
    if current is None or current.reason == NEW_REPLICA_SET_AVAILABLE:
        return False
    if current.reason == PROGRESS_DEADLINE_EXCEEDED:
        return True
    seconds = deployment.spec.progress_deadline_seconds or 0
    if not current.last_update_time:
        return True
    return parse_time(current.last_update_time) + timedelta(seconds=seconds) < now


def rollout_status(
    rollout: Rollout, status: DeploymentStatus, now: datetime
) -> DeploymentStatus:
    """Return `status` with the conditions Progressing and ReplicaFailure."""
    conditions = status.conditions or ()
    if not has_deadline(rollout.deployment):
        conditions = without_condition(conditions, PROGRESSING)
    elif not _was_complete(rollout, status):
        conditions = _with_progress(rollout, status, now)
    failure = replica_failure(rollout.new, rollout.all)
    if failure is not None:
        conditions = with_condition(conditions, failure)
    else:
        conditions = without_condition(conditions, REPLICA_FAILURE)
    return replace(status, conditions=conditions or None)


def _was_complete(rollout: Rollout, status: DeploymentStatus) -> bool:
    # If it was, a change of its pods is no rollout. The success of a deployment without
    # pods does not count for its first pods: upstream reports a success even if they
    # never become available (kubernetes#106697).
    current = find_condition(status.conditions, PROGRESSING)
    first_pods = status.replicas > 0 and not rollout.deployment.status.replicas
    return (
        not first_pods
        and status.replicas == status.updated_replicas
        and current is not None
        and current.reason == NEW_REPLICA_SET_AVAILABLE
        and not _is_of_earlier_rollout(rollout, current)
    )


def _with_progress(
    rollout: Rollout, status: DeploymentStatus, now: datetime
) -> Conditions:
    deployment, conditions = rollout.deployment, status.conditions or ()
    current = find_condition(status.conditions, PROGRESSING)
    what = _described(deployment, rollout.new)
    if is_complete(deployment, status):
        message = f"{what} has successfully progressed."
        new = condition(PROGRESSING, "True", NEW_REPLICA_SET_AVAILABLE, message, now)
        return with_condition(conditions, new)
    if has_progressed(deployment.status, status) or _is_of_earlier_rollout(
        rollout, current
    ):
        message = f"{what} is progressing."
        new = condition(PROGRESSING, "True", "ReplicaSetUpdated", message, now)
        if current is not None and current.status == "True":
            new = replace(new, last_transition_time=current.last_transition_time)
        # Replace the condition even for the same reason, because lastUpdateTime
        # restarts the deadline.
        return (*without_condition(conditions, PROGRESSING), new)
    if has_timed_out(deployment, current, now):
        message = f"{what} has timed out progressing."
        new = condition(PROGRESSING, "False", PROGRESS_DEADLINE_EXCEEDED, message, now)
        return with_condition(conditions, new)
    return conditions


def _is_of_earlier_rollout(
    rollout: Rollout, current: DeploymentCondition | None
) -> bool:
    """Tell whether the condition still has the outcome of an earlier rollout.

    Such a condition does not name the new replica set. A sync that creates a replica
    set replaces the condition. But an existing replica set may become the new one, and
    a process may end before it writes the condition. Upstream then never reports a
    missed deadline, and reports the success of the earlier rollout for ever
    (kubernetes#106697).
    """
    if current is None or rollout.new is None:
        return False
    ended = current.reason in (NEW_REPLICA_SET_AVAILABLE, PROGRESS_DEADLINE_EXCEEDED)
    return ended and f'"{rollout.new.metadata.name}"' not in current.message


def _described(deployment: Deployment, new: ReplicaSet | None) -> str:
    if new is not None:
        return f'ReplicaSet "{new.metadata.name}"'
    return f'Deployment "{deployment.metadata.name}"'


def next_progress_check(
    deployment: Deployment, status: DeploymentStatus, now: datetime
) -> float | None:
    """Return the seconds until the deadline must be checked, `None` for never."""
    # One second is added, because the condition has its time in whole seconds
    # (kubernetes#39785).
    current = find_condition(status.conditions, PROGRESSING)
    if not has_deadline(deployment) or current is None or deployment.spec.paused:
        return None
    if is_complete(deployment, status) or current.reason == PROGRESS_DEADLINE_EXCEEDED:
        return None
    if current.reason == NEW_REPLICA_SET_AVAILABLE or not current.last_update_time:
        return None
    seconds = deployment.spec.progress_deadline_seconds or 0
    deadline = parse_time(current.last_update_time) + timedelta(seconds=seconds)
    return max(0.0, (deadline - now).total_seconds()) + 1.0


# The reasons why a rollout is not complete.


def rollout_reasons(rollout: Rollout, status: DeploymentStatus) -> tuple[Reason, ...]:
    """Return the reasons why a rollout is not complete; none if it is complete."""
    # They exist since the last update of the condition Progressing.
    deployment = rollout.deployment
    deleted_at = deployment.metadata.deletion_timestamp
    if deleted_at:
        return (
            waiting(DEPLOYMENTS, deployment, "the deployment to be gone", deleted_at),
        )
    if is_complete(deployment, status):
        return ()
    progressing = find_condition(status.conditions, PROGRESSING)
    since = progressing.last_update_time if progressing is not None else None
    if deployment.spec.paused:
        return (waiting(DEPLOYMENTS, deployment, "the end of the pause", since),)
    reasons = [
        *_failure(rollout),
        *_of_new(rollout, since),
        *(
            waiting(
                REPLICASETS,
                each,
                f"{_pods(each.status.replicas, 'old')} to be gone",
                since,
            )
            for each in rollout.old
            if each.status.replicas > 0
        ),
    ]
    if not reasons:
        waiting_for = "replica sets to report the pods that they have"
        reasons.append(waiting(DEPLOYMENTS, deployment, waiting_for, since))
    return tuple(reasons)


def _failure(rollout: Rollout) -> list[Reason]:
    failure = replica_failure(rollout.new, rollout.all)
    if failure is None:
        return []
    waiting_for = f"the end of {failure.reason}: {failure.message}"
    since = failure.last_transition_time
    return [waiting(DEPLOYMENTS, rollout.deployment, waiting_for, since)]


def _of_new(rollout: Rollout, since: str | None) -> list[Reason]:
    deployment, new = rollout.deployment, rollout.new
    wanted = desired_replicas(deployment)
    if new is None:
        missing_set = waiting(DEPLOYMENTS, deployment, "a new replica set", since)
        return [missing_set] if wanted else []
    current, available = new.status.replicas, new.status.available_replicas
    reasons = []
    if current < wanted:
        waiting_for = f"{_pods(wanted - current, 'new')} to be created"
        reasons.append(waiting(REPLICASETS, new, waiting_for, since))
    if current > wanted:
        waiting_for = f"{_pods(current - wanted, 'surplus')} to be gone"
        reasons.append(waiting(REPLICASETS, new, waiting_for, since))
    if available < min(current, wanted):
        missing = min(current, wanted) - available
        waiting_for = f"{_pods(missing, 'new')} to be available"
        reasons.append(waiting(REPLICASETS, new, waiting_for, since))
    return reasons


def _pods(count: int, which: str) -> str:
    return f"{count} {which} pod" if count == 1 else f"{count} {which} pods"


# The duration of rollouts.


def rollout_duration(registry: CollectorRegistry) -> Histogram:
    """Return the metric, which upstream does not export."""
    return Histogram(
        "deployment_rollout_duration_seconds",
        "Seconds from a change of a deployment until it is complete",
        buckets=(1, 5, 10, 30, 60, 120, 300, 600, 1200, 3600),
        registry=registry,
    )


class RolloutTimes:
    """Measures the time from the first sync of a rollout to the sync that completes it.

    A rollout that began before this process started is measured from its first sync
    in this process. A rollout without a progress deadline has no condition
    Progressing, so it is not measured.
    """

    def __init__(self, clock: Clock, duration: Histogram) -> None:
        self._clock = clock
        self._duration = duration
        self._started: dict[str, float] = {}

    def reported(self, key: str, status: DeploymentStatus) -> None:
        """Record the status that a sync of `key` has calculated."""
        progressing = find_condition(status.conditions, PROGRESSING)
        if progressing is None:
            self._started.pop(key, None)
        elif progressing.reason != NEW_REPLICA_SET_AVAILABLE:
            self._started.setdefault(key, self._clock.monotonic())
        elif (started := self._started.pop(key, None)) is not None:
            self._duration.observe(self._clock.monotonic() - started)

    def forget(self, key: str) -> None:
        """Drop the state of a deployment that is gone."""
        self._started.pop(key, None)
