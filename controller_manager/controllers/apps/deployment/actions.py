"""What the deployment controller can do, as values; `apply` does it."""

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
    """Return an event that tells what was done."""
    return DeploymentEvent(NORMAL, reason, message)


def warning(reason: str, message: str) -> DeploymentEvent:
    """Return an event that tells what is wrong."""
    return DeploymentEvent(WARNING, reason, message)


class _AwaitsNothing:
    """An action that takes effect at once, or that no rollout waits for."""

    __slots__ = ()

    @property
    def awaits(self) -> Reason | None:
        """Nothing."""
        return None


@dataclass(frozen=True, slots=True)
class RecordEvent(_AwaitsNothing):
    """Record an event that goes with no write."""

    event: DeploymentEvent


@dataclass(frozen=True, slots=True)
class ClaimReplicaSets(_AwaitsNothing):
    """Adopt orphans that the selector matches, release what it no longer matches.

    Teaches which replica sets the deployment has.
    """

    selector: Selector


@dataclass(frozen=True, slots=True)
class RereadReplicaSets(_AwaitsNothing):
    """Read these replica sets and the deployment again, and renew the caches."""

    replica_sets: tuple[ReplicaSet, ...]


@dataclass(frozen=True, slots=True)
class PatchReplicaSet:
    """Patch this very version of a replica set; then record the event, if any.

    Teaches the replica set as stored. `wanted` says what it will then have.
    """

    replica_set: ReplicaSet
    patch: Mapping[str, Any]
    wanted: str
    event: DeploymentEvent | None = None

    @property
    def awaits(self) -> Reason | None:
        """The replica set as it is wanted."""
        return about_replica_set(self.replica_set, f"{self.wanted} of the replica set")


@dataclass(frozen=True, slots=True)
class CreateReplicaSet:
    """Create the new replica set; then record the event, if any.

    Teaches what came of it.
    """

    deployment: Deployment
    replica_set: ReplicaSet
    event: DeploymentEvent | None = None

    @property
    def awaits(self) -> Reason | None:
        """The new replica set."""
        return about_deployment(self.deployment, "the new replica set to be created")


@dataclass(frozen=True, slots=True)
class UseNamesake:
    """Take the replica set that has the name already for the new one."""

    replica_set: ReplicaSet

    @property
    def awaits(self) -> Reason | None:
        """The cache, which does not show it yet."""
        return about_replica_set(self.replica_set, "the cache to show this replica set")


@dataclass(frozen=True, slots=True)
class DeleteReplicaSet(_AwaitsNothing):
    """Delete this very version of an old replica set, unless it is gone."""

    replica_set: ReplicaSet


@dataclass(frozen=True, slots=True)
class ReadDeployment:
    """Read the deployment with all its fields; teaches it as stored."""

    deployment: Deployment

    @property
    def awaits(self) -> Reason | None:
        """The rollback, for which it is read."""
        return about_deployment(self.deployment, "the rollback to be carried out")


@dataclass(frozen=True, slots=True)
class ReplaceDeployment:
    """Replace the stored deployment; then record the event, if any."""

    deployment: Deployment
    body: Mapping[str, Any]
    event: DeploymentEvent | None = None

    @property
    def awaits(self) -> Reason | None:
        """The rollout of what was written."""
        return about_deployment(
            self.deployment, "the deployment to be rolled out as it was rewritten"
        )


@dataclass(frozen=True, slots=True)
class CountCollision:
    """Write the deployment's status, in which one more collision is counted."""

    deployment: Deployment

    @property
    def awaits(self) -> Reason | None:
        """A name that nobody else has."""
        return about_deployment(self.deployment, "a free name for the new replica set")


@dataclass(frozen=True, slots=True)
class WriteFailure(_AwaitsNothing):
    """Try to write into the status why the new replica set could not be created.

    A refusal is only logged: the failed creation matters more, and is raised.
    """

    deployment: Deployment


Action = (
    RecordEvent
    | ClaimReplicaSets
    | RereadReplicaSets
    | PatchReplicaSet
    | CreateReplicaSet
    | UseNamesake
    | DeleteReplicaSet
    | ReadDeployment
    | ReplaceDeployment
    | CountCollision
    | WriteFailure
)


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The deployment with the status and the revision that it should have.

    `judges_progress` is true if the condition Progressing was brought up to date.
    """

    deployment: Deployment
    judges_progress: bool


DeploymentStep = Step[Action]
DeploymentDecision = Decision[Action, StatusReport]


def scaling_event(
    replica_set: ReplicaSet, before: int, after: int
) -> DeploymentEvent | None:
    """Return the event for a replica set's new size, `None` if it is the old one."""
    if before == after:
        return None
    direction = "up" if after > before else "down"
    return normal(
        "ScalingReplicaSet",
        f"Scaled {direction} replica set {replica_set.metadata.name} "
        f"from {before} to {after}",
    )
