"""What the status says of whatever keeps a number of pods (replica_set_utils.go)."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from controller_manager.api.apps.v1 import (
    ReplicaSet,
    ReplicaSetCondition,
    ReplicaSetStatus,
    ReplicationController,
    desired_replicas,
)
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import labels_of
from controller_manager.api.pods import available_at, is_available, is_ready
from controller_manager.api.times import format_time

REPLICA_FAILURE: Final = "ReplicaFailure"


def calculate_status(
    owner: ReplicaSet | ReplicationController,
    active: Sequence[Pod],
    terminating: Sequence[Pod] | None,
    failure: Exception | None,
    now: datetime,
) -> ReplicaSetStatus:
    """Return the status that the pods of a replica set make.

    `failure` is what creating or deleting pods met with; it becomes the
    condition ReplicaFailure, which stays as first reported until it is over.
    `terminating` is `None` if they are not to be counted (the feature gate
    DeploymentReplicaSetTerminatingReplicas).
    """
    template_labels = owner.spec.template.metadata.labels or {}
    min_ready_seconds = owner.spec.min_ready_seconds
    ready = [pod for pod in active if is_ready(pod)]
    return ReplicaSetStatus(
        replicas=len(active),
        fully_labeled_replicas=sum(
            1 for pod in active if template_labels.items() <= labels_of(pod).items()
        ),
        ready_replicas=len(ready),
        available_replicas=sum(
            1 for pod in ready if is_available(pod, min_ready_seconds, now)
        ),
        terminating_replicas=None if terminating is None else len(terminating),
        observed_generation=owner.metadata.generation,
        conditions=_conditions(owner, len(active), failure, now),
    )


def _conditions(
    owner: ReplicaSet | ReplicationController,
    active: int,
    failure: Exception | None,
    now: datetime,
) -> tuple[ReplicaSetCondition, ...] | None:
    present = owner.status.conditions or ()
    others = tuple(each for each in present if each.type != REPLICA_FAILURE)
    if failure is None:
        return others or None
    if len(others) < len(present):
        return present
    difference = active - desired_replicas(owner)
    reason = "FailedCreate" if difference < 0 else "FailedDelete" if difference else ""
    condition = ReplicaSetCondition(
        type=REPLICA_FAILURE,
        status="True",
        last_transition_time=format_time(now),
        reason=reason,
        message=str(failure),
    )
    return (*others, condition)


def differs_in_substance(old: ReplicaSetStatus, new: ReplicaSetStatus) -> bool:
    """Tell whether more than observedGeneration has changed."""
    return _substance(old) != _substance(new)


def _substance(status: ReplicaSetStatus) -> ReplicaSetStatus:
    # An absent count of terminating pods says the same as zero of them.
    return msgspec.structs.replace(
        status,
        observed_generation=0,
        terminating_replicas=status.terminating_replicas or 0,
        conditions=status.conditions or None,
    )


def next_availability_check(
    active: Iterable[Pod], min_ready_seconds: int, now: datetime
) -> float | None:
    """Return the seconds until the next ready pod becomes available.

    `None` if none will by the passing of time alone.
    """
    if min_ready_seconds == 0:
        return None
    instants = (available_at(pod, min_ready_seconds) for pod in active)
    pending = [instant for instant in instants if instant and instant > now]
    if not pending:
        return None
    return max((min(pending) - now) / timedelta(seconds=1), 0.0)
