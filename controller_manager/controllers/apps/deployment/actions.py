"""The actions of the deployment controller, as values for its applier."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
    Deployment,
    ReplicaSet,
)
from controller_manager.api.selectors import Selector
from controller_manager.api.times import parse_time
from controller_manager.client.events import NORMAL, WARNING
from controller_manager.control.decision import Decision, Step, reference_to
from controller_manager.control.mutations import Mutation
from controller_manager.runtime.outcome import Reason


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


class DeploymentEvent(Struct, frozen=True):
    """An event about the deployment."""

    type: str
    reason: str
    message: str


def normal(reason: str, message: str) -> DeploymentEvent:
    """Return an event about an action that was carried out."""
    return DeploymentEvent(NORMAL, reason, message)


def warning(reason: str, message: str) -> DeploymentEvent:
    """Return an event about a problem."""
    return DeploymentEvent(WARNING, reason, message)


class _AwaitsNothing(Struct, frozen=True):
    """An action that takes effect at once, or for which no rollout waits."""

    @property
    def awaits(self) -> Reason | None:
        """No reason: no rollout waits for this action."""
        return None


class RecordEvent(_AwaitsNothing, frozen=True):
    """Record an event that belongs to no write."""

    event: DeploymentEvent


class ClaimReplicaSets(_AwaitsNothing, frozen=True):
    """Adopt orphans that match the selector, release replica sets that do not.

    The view then has the replica sets of the deployment.
    """

    selector: Selector


class RereadReplicaSets(_AwaitsNothing, frozen=True):
    """Read these replica sets and the deployment again, and update the caches."""

    replica_sets: tuple[ReplicaSet, ...]


class PatchReplicaSet(Struct, frozen=True):
    """Patch this version of a replica set; then record the event, if any.

    The view then has the replica set as stored. `wanted` names the change.
    """

    replica_set: ReplicaSet
    patch: Mapping[str, Any]
    wanted: str
    event: DeploymentEvent | None = None

    @property
    def awaits(self) -> Reason | None:
        """The change of the replica set."""
        return about_replica_set(self.replica_set, f"{self.wanted} of the replica set")


class CreateReplicaSet(Struct, frozen=True):
    """Create the new replica set; then record the event, if any.

    The view then has the result of the creation.
    """

    deployment: Deployment
    replica_set: ReplicaSet
    event: DeploymentEvent | None = None

    @property
    def awaits(self) -> Reason | None:
        """The new replica set."""
        return about_deployment(self.deployment, "the new replica set to be created")


class TryReplicaSet(_AwaitsNothing, frozen=True):
    """Ask by a dry run whether admission still changes the new replica set.

    The view then has the answer, which may be another `mutation`.
    """

    mutation: Mutation
    replica_set: ReplicaSet


class UseExistingReplicaSet(Struct, frozen=True):
    """Use an existing replica set, which has the name already, as the new one."""

    replica_set: ReplicaSet

    @property
    def awaits(self) -> Reason | None:
        """The cache, which does not show the replica set yet."""
        return about_replica_set(self.replica_set, "the cache to show this replica set")


class DeleteReplicaSet(_AwaitsNothing, frozen=True):
    """Delete this version of an old replica set, unless it is gone."""

    replica_set: ReplicaSet


class ReadDeployment(Struct, frozen=True):
    """Read the deployment with all its fields; the view then has it as stored."""

    deployment: Deployment

    @property
    def awaits(self) -> Reason | None:
        """The rollback, for which the deployment is read."""
        return about_deployment(self.deployment, "the rollback to be carried out")


class ReplaceDeployment(Struct, frozen=True):
    """Replace the stored deployment; then record the event, if any."""

    deployment: Deployment
    body: Mapping[str, Any]
    event: DeploymentEvent | None = None

    @property
    def awaits(self) -> Reason | None:
        """The rollout after this write."""
        return about_deployment(
            self.deployment, "the deployment to be rolled out after this write"
        )


class CountCollision(Struct, frozen=True):
    """Write the deployment's status with its collision count increased by one."""

    deployment: Deployment

    @property
    def awaits(self) -> Reason | None:
        """A name that no other replica set has."""
        return about_deployment(self.deployment, "a free name for the new replica set")


class WriteFailure(_AwaitsNothing, frozen=True):
    """Try to write a condition that says why the new replica set was not created.

    If this write fails, its error is only logged, because the error of the creation is
    more important and is raised.
    """

    deployment: Deployment


Action = (
    RecordEvent
    | ClaimReplicaSets
    | RereadReplicaSets
    | PatchReplicaSet
    | CreateReplicaSet
    | TryReplicaSet
    | UseExistingReplicaSet
    | DeleteReplicaSet
    | ReadDeployment
    | ReplaceDeployment
    | CountCollision
    | WriteFailure
)


class StatusReport(Struct, frozen=True):
    """The deployment with the status and the revision that it should have.

    `updates_progress` is true if the condition Progressing was updated.
    """

    deployment: Deployment
    updates_progress: bool


DeploymentStep = Step[Action]
DeploymentDecision = Decision[Action, StatusReport]


def scaling_event(
    replica_set: ReplicaSet, before: int, after: int
) -> DeploymentEvent | None:
    """Return the event for a new size of a replica set, `None` for the same size."""
    if before == after:
        return None
    direction = "up" if after > before else "down"
    return normal(
        "ScalingReplicaSet",
        f"Scaled {direction} replica set {replica_set.metadata.name} "
        f"from {before} to {after}",
    )
