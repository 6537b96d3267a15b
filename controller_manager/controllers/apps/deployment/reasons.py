"""The reasons of a rollout: what it waits for."""

from datetime import datetime

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
    Deployment,
    DeploymentStatus,
    ReplicaSet,
)
from controller_manager.api.times import parse_time
from controller_manager.api.workloads import desired_replicas
from controller_manager.control.decision import Reason, reference_to
from controller_manager.controllers.apps.deployment.progress import is_complete
from controller_manager.controllers.apps.deployment.rollout import Rollout
from controller_manager.controllers.apps.deployment.status import (
    PROGRESSING,
    find_condition,
    replica_failure,
)


def about_deployment(
    deployment: Deployment, waiting_for: str, since: str | None = None
) -> Reason:
    """Return a reason about the deployment; `since` is an RFC 3339 time."""
    return Reason(waiting_for, _instant(since), reference_to(DEPLOYMENTS, deployment))


def about_replica_set(
    replica_set: ReplicaSet, waiting_for: str, since: str | None = None
) -> Reason:
    """Return a reason about a replica set; `since` is an RFC 3339 time."""
    return Reason(waiting_for, _instant(since), reference_to(REPLICASETS, replica_set))


def _instant(text: str | None) -> datetime | None:
    return parse_time(text) if text else None


def rollout_reasons(rollout: Rollout, status: DeploymentStatus) -> tuple[Reason, ...]:
    """Return the reasons why a rollout is not complete; none if it is complete.

    `status` is calculated from the current replica sets. A wait counts from the last
    update of the condition Progressing.
    """
    deployment = rollout.deployment
    deleted_at = deployment.metadata.deletion_timestamp
    if deleted_at:
        return (about_deployment(deployment, "the deployment to be gone", deleted_at),)
    if is_complete(deployment, status):
        return ()
    progressing = find_condition(status.conditions or (), PROGRESSING)
    since = progressing.last_update_time if progressing is not None else None
    if deployment.spec.paused:
        return (about_deployment(deployment, "the end of the pause", since),)
    reasons = [
        *_failure(rollout),
        *_of_new(rollout, since),
        *(
            about_replica_set(
                each, f"{_pods(each.status.replicas, 'old')} to be gone", since
            )
            for each in rollout.old
            if each.status.replicas > 0
        ),
    ]
    if not reasons:
        waiting_for = "replica sets to report the pods that they have"
        reasons.append(about_deployment(deployment, waiting_for, since))
    return tuple(reasons)


def _failure(rollout: Rollout) -> list[Reason]:
    """Return a reason for the condition ReplicaFailure, if a replica set has it."""
    failure = replica_failure(rollout.new, rollout.all)
    if failure is None:
        return []
    waiting_for = f"the end of {failure.reason}: {failure.message}"
    since = failure.last_transition_time
    return [about_deployment(rollout.deployment, waiting_for, since)]


def _of_new(rollout: Rollout, since: str | None) -> list[Reason]:
    """Return reasons for pods that the new replica set lacks, or has too many of."""
    deployment, new = rollout.deployment, rollout.new
    wanted = desired_replicas(deployment)
    if new is None:
        missing_set = about_deployment(deployment, "a new replica set", since)
        return [missing_set] if wanted else []
    current, available = new.status.replicas, new.status.available_replicas
    reasons = []
    if current < wanted:
        waiting_for = f"{_pods(wanted - current, 'new')} to be created"
        reasons.append(about_replica_set(new, waiting_for, since))
    if current > wanted:
        waiting_for = f"{_pods(current - wanted, 'surplus')} to be gone"
        reasons.append(about_replica_set(new, waiting_for, since))
    if available < min(current, wanted):
        missing = min(current, wanted) - available
        waiting_for = f"{_pods(missing, 'new')} to be available"
        reasons.append(about_replica_set(new, waiting_for, since))
    return reasons


def _pods(count: int, which: str) -> str:
    return f"{count} {which} pod" if count == 1 else f"{count} {which} pods"
