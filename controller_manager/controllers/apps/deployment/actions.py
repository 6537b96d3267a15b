"""The actions of the deployment controller, as values; `apply` carries them out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller_manager.api.apps.v1 import Deployment, ReplicaSet
from controller_manager.api.selectors import Selector
from controller_manager.client.events import NORMAL, WARNING
from controller_manager.control.decision import Decision, Reason, Step
from controller_manager.controllers.apps.deployment.reasons import (
    about_deployment,
    about_replica_set,
)


@dataclass(frozen=True, slots=True)
class DeploymentEvent:
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


class _AwaitsNothing:
    """An action that takes effect immediately, or that no rollout waits for."""

    __slots__ = ()

    @property
    def awaits(self) -> Reason | None:
        """Nothing."""
        return None


@dataclass(frozen=True, slots=True)
class RecordEvent(_AwaitsNothing):
    """Record an event that belongs to no write."""

    event: DeploymentEvent


@dataclass(frozen=True, slots=True)
class ClaimReplicaSets(_AwaitsNothing):
    """Adopt orphans that match the selector, release replica sets that do not.

    The view then has the replica sets of the deployment.
    """

    selector: Selector


@dataclass(frozen=True, slots=True)
class RereadReplicaSets(_AwaitsNothing):
    """Read these replica sets and the deployment again, and update the caches."""

    replica_sets: tuple[ReplicaSet, ...]


@dataclass(frozen=True, slots=True)
class PatchReplicaSet:
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


@dataclass(frozen=True, slots=True)
class CreateReplicaSet:
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


@dataclass(frozen=True, slots=True)
class UseExistingReplicaSet:
    """Use an existing replica set, which has the name already, as the new one."""

    replica_set: ReplicaSet

    @property
    def awaits(self) -> Reason | None:
        """The cache, which does not show the replica set yet."""
        return about_replica_set(self.replica_set, "the cache to show this replica set")


@dataclass(frozen=True, slots=True)
class DeleteReplicaSet(_AwaitsNothing):
    """Delete this version of an old replica set, unless it is gone."""

    replica_set: ReplicaSet


@dataclass(frozen=True, slots=True)
class ReadDeployment:
    """Read the deployment with all its fields; the view then has it as stored."""

    deployment: Deployment

    @property
    def awaits(self) -> Reason | None:
        """The rollback, for which the deployment is read."""
        return about_deployment(self.deployment, "the rollback to be carried out")


@dataclass(frozen=True, slots=True)
class ReplaceDeployment:
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


@dataclass(frozen=True, slots=True)
class CountCollision:
    """Write the deployment's status with its collision count increased by one."""

    deployment: Deployment

    @property
    def awaits(self) -> Reason | None:
        """A name that no other replica set has."""
        return about_deployment(self.deployment, "a free name for the new replica set")


@dataclass(frozen=True, slots=True)
class WriteFailure(_AwaitsNothing):
    """Try to write a condition that says why the new replica set was not created.

    If this write fails, the error is only logged: the error of the creation is more
    important, and is raised.
    """

    deployment: Deployment


Action = (
    RecordEvent
    | ClaimReplicaSets
    | RereadReplicaSets
    | PatchReplicaSet
    | CreateReplicaSet
    | UseExistingReplicaSet
    | DeleteReplicaSet
    | ReadDeployment
    | ReplaceDeployment
    | CountCollision
    | WriteFailure
)


@dataclass(frozen=True, slots=True)
class StatusReport:
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
    """Return the event for a replica set's new size, `None` if it is unchanged."""
    if before == after:
        return None
    direction = "up" if after > before else "down"
    return normal(
        "ScalingReplicaSet",
        f"Scaled {direction} replica set {replica_set.metadata.name} "
        f"from {before} to {after}",
    )
