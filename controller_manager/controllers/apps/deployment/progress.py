"""The progress of a rollout, and the condition Progressing (progress.go)."""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from controller_manager.api.apps.v1 import (
    Deployment,
    DeploymentCondition,
    DeploymentStatus,
    ReplicaSet,
)
from controller_manager.api.conditions import find_condition
from controller_manager.api.times import parse_time
from controller_manager.api.workloads import desired_replicas

from .status import (
    PROGRESSING,
    REPLICA_FAILURE,
    Conditions,
    Draft,
    condition,
    replica_failure,
    with_condition,
    without_condition,
)
from .view import Rollout

REPLICA_SET_UPDATED: Final = "ReplicaSetUpdated"
REPLICA_SET_CREATE_ERROR: Final = "ReplicaSetCreateError"
REPLICA_SET_MUTATED: Final = "ReplicaSetMutated"
"""A reason of ours: upstream says nothing of such a change."""

NEW_REPLICA_SET_CREATED: Final = "NewReplicaSetCreated"
FOUND_NEW_REPLICA_SET: Final = "FoundNewReplicaSet"
NEW_REPLICA_SET_AVAILABLE: Final = "NewReplicaSetAvailable"
PROGRESS_DEADLINE_EXCEEDED: Final = "ProgressDeadlineExceeded"
DEPLOYMENT_PAUSED: Final = "DeploymentPaused"
DEPLOYMENT_RESUMED: Final = "DeploymentResumed"


def has_deadline(deployment: Deployment) -> bool:
    """Tell whether the deployment has a progress deadline."""
    deadline = deployment.spec.progress_deadline_seconds
    return deadline is not None and deadline != 2**31 - 1


def record_pause(draft: Draft, now: datetime) -> Draft:
    """Record a pause and its end, so that a pause never counts as missing progress.

    An exceeded deadline stays in the condition (checkPausedConditions).
    """
    deployment = draft.deployment
    if not has_deadline(deployment):
        return draft
    current = find_condition(draft.conditions, PROGRESSING)
    reason = current.reason if current is not None else ""
    if reason == PROGRESS_DEADLINE_EXCEEDED:
        return draft
    paused = deployment.spec.paused
    if paused and reason != DEPLOYMENT_PAUSED:
        what = (DEPLOYMENT_PAUSED, "Deployment is paused")
    elif not paused and reason == DEPLOYMENT_PAUSED:
        what = (DEPLOYMENT_RESUMED, "Deployment is resumed")
    else:
        return draft
    return draft.with_condition(condition(PROGRESSING, "Unknown", *what, now))


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
    rollout: Rollout, draft: Draft, status: DeploymentStatus, now: datetime
) -> DeploymentStatus:
    """Return `status` with the conditions Progressing and ReplicaFailure."""
    conditions = status.conditions or ()
    if not has_deadline(rollout.deployment):
        conditions = without_condition(conditions, PROGRESSING)
    elif not _was_complete(rollout, draft, status):
        conditions = _with_progress(rollout, draft, status, conditions, now)
    failure = replica_failure(rollout.new, rollout.all)
    if failure is not None:
        conditions = with_condition(conditions, failure)
    else:
        conditions = without_condition(conditions, REPLICA_FAILURE)
    return msgspec.structs.replace(status, conditions=conditions or None)


def _was_complete(rollout: Rollout, draft: Draft, status: DeploymentStatus) -> bool:
    """Tell whether the rollout was complete before this sync.

    A change of its pods is then no rollout. The success of a deployment without pods
    does not count for its first pods: upstream reports a success even if they never
    become available (kubernetes#106697).
    """
    current = find_condition(draft.conditions, PROGRESSING)
    first_pods = status.replicas > 0 and not rollout.deployment.status.replicas
    return (
        not first_pods
        and status.replicas == status.updated_replicas
        and current is not None
        and current.reason == NEW_REPLICA_SET_AVAILABLE
        and not _is_of_earlier_rollout(rollout, current)
    )


def _with_progress(
    rollout: Rollout,
    draft: Draft,
    status: DeploymentStatus,
    conditions: Conditions,
    now: datetime,
) -> Conditions:
    deployment = rollout.deployment
    current = find_condition(draft.conditions, PROGRESSING)
    what = _described(deployment, rollout.new)
    if is_complete(deployment, status):
        message = f"{what} has successfully progressed."
        new = condition(PROGRESSING, "True", NEW_REPLICA_SET_AVAILABLE, message, now)
        return with_condition(conditions, new)
    if has_progressed(deployment.status, status) or _is_of_earlier_rollout(
        rollout, current
    ):
        message = f"{what} is progressing."
        new = condition(PROGRESSING, "True", REPLICA_SET_UPDATED, message, now)
        if current is not None and current.status == "True":
            new = msgspec.structs.replace(
                new, last_transition_time=current.last_transition_time
            )
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
    """Return the seconds until the deadline must be checked, `None` for never.

    One second is added, because the condition has its time in whole seconds
    (kubernetes#39785).
    """
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
