"""The status of an owner that keeps a number of pods (replica_set_utils.go)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from controller_manager.api.apps.v1 import (
    ReplicaSet,
    ReplicaSetCondition,
    ReplicaSetStatus,
    desired_replicas,
)
from controller_manager.api.core.v1 import (
    Pod,
    ReplicationController,
    ReplicationControllerCondition,
    ReplicationControllerStatus,
)
from controller_manager.api.meta import labels_of
from controller_manager.api.pods import is_available, is_ready
from controller_manager.api.scalars import format_time

REPLICA_FAILURE: Final = "ReplicaFailure"

OwnerStatus = ReplicaSetStatus | ReplicationControllerStatus
ConditionT = TypeVar(
    "ConditionT", bound=ReplicaSetCondition | ReplicationControllerCondition
)


def calculate_status(
    owner: ReplicaSet | ReplicationController,
    active: Sequence[Pod],
    terminating: Sequence[Pod] | None,
    failure: Exception | None,
    now: datetime,
) -> OwnerStatus:
    """Return the status of an owner, calculated from its pods.

    `failure` is the error of creating or deleting pods; the condition ReplicaFailure
    stays as it is until there is none. `terminating` is `None` if terminating pods are
    not counted (the feature gate DeploymentReplicaSetTerminatingReplicas).
    """
    counts = _counts(owner, active, now)
    reason = _failure_reason(len(active) - desired_replicas(owner))
    if isinstance(owner, ReplicationController):
        make, present = ReplicationControllerCondition, owner.status.conditions
        conditions = _conditions(make, present, reason, failure, now)
        return ReplicationControllerStatus(**counts, conditions=conditions)
    return ReplicaSetStatus(
        **counts,
        terminating_replicas=None if terminating is None else len(terminating),
        conditions=_conditions(
            ReplicaSetCondition, owner.status.conditions, reason, failure, now
        ),
    )


def _counts(
    owner: ReplicaSet | ReplicationController, active: Sequence[Pod], now: datetime
) -> dict[str, int]:
    template_labels = owner.spec.template.metadata.labels or {}
    min_ready_seconds = owner.spec.min_ready_seconds
    ready = [pod for pod in active if is_ready(pod)]
    return {
        "replicas": len(active),
        "fully_labeled_replicas": sum(
            1 for pod in active if template_labels.items() <= labels_of(pod).items()
        ),
        "ready_replicas": len(ready),
        "available_replicas": sum(
            1 for pod in ready if is_available(pod, min_ready_seconds, now)
        ),
        "observed_generation": owner.metadata.generation,
    }


def _failure_reason(surplus: int) -> str:
    if surplus == 0:
        return ""
    return "FailedCreate" if surplus < 0 else "FailedDelete"


def _conditions(
    make: type[ConditionT],
    present: tuple[ConditionT, ...] | None,
    reason: str,
    failure: Exception | None,
    now: datetime,
) -> tuple[ConditionT, ...] | None:
    others = tuple(each for each in present or () if each.type != REPLICA_FAILURE)
    if failure is None:
        return others or None
    if len(others) < len(present or ()):
        return present
    condition = make(
        type=REPLICA_FAILURE,
        status="True",
        last_transition_time=format_time(now),
        reason=reason,
        message=str(failure),
    )
    return (*others, condition)


def differs_in_substance(old: OwnerStatus, new: OwnerStatus) -> bool:
    """Tell whether more than observedGeneration has changed."""
    return _substance(old) != _substance(new)


def _substance(status: OwnerStatus) -> OwnerStatus:
    status = msgspec.structs.replace(
        status, observed_generation=0, conditions=status.conditions or None
    )
    if isinstance(status, ReplicaSetStatus) and status.terminating_replicas is None:
        # No count of terminating pods means the same as a count of zero.
        return msgspec.structs.replace(status, terminating_replicas=0)
    return status
