"""The status of a deployment (calculateStatus, sync.go)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from controller_manager.api.apps.v1 import (
    Deployment,
    DeploymentCondition,
    DeploymentStatus,
    ReplicaSet,
)
from controller_manager.api.conditions import find_condition
from controller_manager.api.times import format_time
from controller_manager.api.workloads import desired_replicas

from .fenceposts import max_unavailable
from .revisions import REVISION
from .scaling import total_available, total_replicas
from .view import Rollout

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
REPLICA_FAILURE: Final = "ReplicaFailure"

Conditions = tuple[DeploymentCondition, ...]


class Draft(msgspec.Struct, frozen=True):
    """The conditions and the revision that a sync will write to the deployment.

    The sync writes them once, at its end; upstream writes them after every step.
    """

    deployment: Deployment
    conditions: Conditions
    revision: str | None = None
    collision_count: int | None = None

    @classmethod
    def of(cls, deployment: Deployment) -> "Draft":
        """Start with the cached conditions of the deployment."""
        status = deployment.status
        return cls(
            deployment,
            status.conditions or (),
            collision_count=status.collision_count,
        )

    def with_condition(self, condition: DeploymentCondition) -> "Draft":
        """Return the draft with a condition, set as `with_condition` does."""
        return msgspec.structs.replace(
            self, conditions=with_condition(self.conditions, condition)
        )

    def deployment_with(self, status: DeploymentStatus) -> Deployment:
        """Return the deployment with `status` and the new revision."""
        metadata = self.deployment.metadata
        if self.revision is not None:
            annotations = {**(metadata.annotations or {}), REVISION: self.revision}
            metadata = msgspec.structs.replace(metadata, annotations=annotations)
        return msgspec.structs.replace(
            self.deployment, metadata=metadata, status=status
        )


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
    """Return the conditions with `new` in place of the condition of its type.

    Nothing changes if status and reason are the same. If only the status is the same,
    the transition time stays (SetDeploymentCondition).
    """
    old = find_condition(conditions, new.type)
    if old is not None and (old.status, old.reason) == (new.status, new.reason):
        return conditions
    if old is not None and old.status == new.status:
        new = msgspec.structs.replace(
            new, last_transition_time=old.last_transition_time
        )
    return (*without_condition(conditions, new.type), new)


def calculate_status(
    rollout: Rollout, draft: Draft, now: datetime, *, terminating: bool = True
) -> DeploymentStatus:
    """Return the status calculated from the replica sets, with condition Available.

    `terminating` says whether terminating pods are counted (the feature gate
    DeploymentReplicaSetTerminatingReplicas).
    """
    deployment, everything = rollout.deployment, rollout.all
    available = total_available(everything)
    if available >= desired_replicas(deployment) - max_unavailable(deployment):
        availability = condition(
            AVAILABLE,
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
            now,
        )
    else:
        availability = condition(
            AVAILABLE,
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
            now,
        )
    new = rollout.new
    return DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(each.status.replicas for each in everything),
        updated_replicas=new.status.replicas if new is not None else 0,
        ready_replicas=sum(each.status.ready_replicas for each in everything),
        available_replicas=available,
        unavailable_replicas=max(0, total_replicas(everything) - available),
        terminating_replicas=_terminating(everything) if terminating else None,
        conditions=with_condition(draft.conditions, availability),
        collision_count=draft.collision_count,
    )


def _terminating(everything: Iterable[ReplicaSet]) -> int | None:
    """Return the sum of the terminating pods, `None` if a replica set has no number.

    A replica set that its controller has not synced yet has no pods, so it may lack
    the number. Others lack it if a controller synced them that does not count
    terminating pods (GetTerminatingReplicaCountForReplicaSets).
    """
    total = 0
    for status in (each.status for each in everything):
        if status.terminating_replicas is not None:
            total += status.terminating_replicas
        elif status.observed_generation:
            return None
    return total


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


def is_same(old: DeploymentStatus, new: DeploymentStatus) -> bool:
    """Tell whether two statuses are equal; absent and empty conditions are equal."""
    return msgspec.structs.replace(
        old, conditions=old.conditions or None
    ) == msgspec.structs.replace(new, conditions=new.conditions or None)
