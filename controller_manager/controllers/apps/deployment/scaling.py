"""Sizes of replica sets, and the plan for a new size of the deployment.

Upstream: scale of sync.go, and NewRSNewReplicas of deployment_util.go.
"""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.apps.v1 import Deployment, ReplicaSet
from controller_manager.api.meta import annotations_of
from controller_manager.api.workloads import desired_replicas

from .actions import PatchReplicaSet, scaling_event
from .fenceposts import is_rolling_update, max_total
from .revisions import (
    changed_annotations,
    desired_annotation,
    max_annotation,
    size_annotations,
)
from .view import Rollout, by_age

RECREATE: Final = "Recreate"


class Resize(Struct, frozen=True):
    """Give a replica set this size, and the annotations for this size."""

    replica_set: ReplicaSet
    replicas: int


Plan = tuple[Resize, ...]


def total_replicas(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return the sum of the wanted sizes."""
    return sum(desired_replicas(each) for each in replica_sets)


def total_available(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return the sum of the available pods."""
    return sum(each.status.available_replicas for each in replica_sets)


def lasting_available(replica_set: ReplicaSet) -> int:
    """Return how many available pods remain once the replica set has its size.

    Right after a replica set was scaled down, it still reports pods that are about to
    be deleted. Upstream counts them as available, and so deletes more pods than allowed
    (kubernetes#22719).
    """
    return min(replica_set.status.available_replicas, desired_replicas(replica_set))


def active(replica_sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return the replica sets that want pods."""
    return [each for each in replica_sets if desired_replicas(each) > 0]


def new_replica_set_size(
    deployment: Deployment, others: Iterable[ReplicaSet], current: int
) -> int:
    """Return the size that the new replica set may have now (NewRSNewReplicas).

    `others` are all other replica sets, `current` is its size so far. Recreate
    takes the full size; a rolling update takes what maxSurge allows.
    """
    wanted = desired_replicas(deployment)
    if not is_rolling_update(deployment):
        return wanted
    free = max_total(deployment) - total_replicas(others) - current
    if free <= 0:
        return current
    return current + min(free, wanted - current)


def is_scaling_event(rollout: Rollout) -> bool:
    """Tell whether the deployment's size has changed since its last scaling.

    Returns False for a Recreate deployment with pods of several templates, because
    `plan_scaling` has no plan for it. Upstream checks its size without end and never
    continues the rollout. The Recreate strategy gives the deployment its new size
    anyway.
    """
    deployment = rollout.deployment
    wanted = desired_replicas(deployment)
    with_pods = active(rollout.all)
    if not is_rolling_update(deployment) and len(with_pods) > 1:
        return False
    return any(desired_annotation(each) not in (None, wanted) for each in with_pods)


def plan_scaling(rollout: Rollout) -> Plan:
    """Return the plan for a changed size of the deployment (scale, sync.go).

    If one replica set has all pods, it gets the whole change. If the new replica set
    is complete, old ones are scaled to zero. During a rolling update the change is
    distributed in proportion to size, so that it does not speed up a broken rollout.
    """
    deployment = rollout.deployment
    wanted = desired_replicas(deployment)
    sole = _active_or_latest(rollout)
    if sole is not None:
        if desired_replicas(sole) == wanted and desired_annotation(sole) is None:
            return ()
        return (Resize(sole, wanted),)
    if rollout.new is not None and is_saturated(deployment, rollout.new):
        return tuple(Resize(each, 0) for each in active(rollout.old))
    if is_rolling_update(deployment):
        return _proportional(rollout)
    return ()


def _active_or_latest(rollout: Rollout) -> ReplicaSet | None:
    """Return the only replica set with pods; if none has pods, the newest, if any."""
    with_pods = active(rollout.all)
    if len(with_pods) == 1:
        return with_pods[0]
    if with_pods:
        return None
    if rollout.new is not None:
        return rollout.new
    return max(rollout.old, key=by_age, default=None)


def is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    """Tell whether the new replica set has all pods, and all are available."""
    wanted = desired_replicas(deployment)
    return (
        desired_replicas(new) == wanted
        and desired_annotation(new) == wanted
        and new.status.available_replicas == wanted
    )


def _proportional(rollout: Rollout) -> Plan:
    """Distribute the change; the sum over all replica sets is exactly the change.

    Worked example: 10 wanted with surge 3 (13 at most), sizes 8 and 5; scaled
    to 15 (18 at most) there are 5 to add. 8·18/13 = 11.08 → +3, 5·18/13 = 6.92
    → +2. The remainder of rounding goes to the largest.
    """
    deployment = rollout.deployment
    sized = active(rollout.all)
    allowed = max_total(deployment) if desired_replicas(deployment) > 0 else 0
    change = allowed - total_replicas(sized)
    # Of equal sizes, the newer one is scaled up first, the older one is scaled down
    # first.
    sized.sort(key=by_age, reverse=change > 0)
    sized.sort(key=desired_replicas, reverse=True)
    sizes: list[int] = []
    spread = 0
    for each in sized:
        share = _share(each, deployment, change - spread, change)
        sizes.append(desired_replicas(each) + share)
        spread += share
    _add_remainder(sizes, change - spread)
    return tuple(Resize(each, size) for each, size in zip(sized, sizes, strict=True))


def _add_remainder(sizes: list[int], remainder: int) -> None:
    """Add the remainder of rounding to the largest size, then to the next sizes.

    No size goes below 0. Upstream changes only the largest: of four replica sets with
    a pod each, scaled to two pods in total, it leaves three pods.
    """
    for position, size in enumerate(sizes):
        sizes[position] = max(0, size + remainder)
        remainder -= sizes[position] - size


def _share(each: ReplicaSet, deployment: Deployment, left: int, change: int) -> int:
    if change == 0 or left == 0:
        return 0
    fraction = _fraction(each, deployment)
    return min(fraction, left) if change > 0 else max(fraction, left)


def _fraction(each: ReplicaSet, deployment: Deployment) -> int:
    size = desired_replicas(each)
    if desired_replicas(deployment) == 0:
        return -size
    # The most pods of all replica sets at the last scaling of this one.
    before = max_annotation(each) or deployment.status.replicas
    if before == 0:
        return 0
    return _round_half_up(size * max_total(deployment), before) - size


def _round_half_up(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)


def size_annotations_of(deployment: Deployment) -> dict[str, str]:
    """Return the size annotations that a replica set gets when it is scaled."""
    return size_annotations(desired_replicas(deployment), max_total(deployment))


def resize_patches(deployment: Deployment, plan: Plan) -> tuple[PatchReplicaSet, ...]:
    """Return the patches of a plan; none for a replica set without a change."""
    patches = (_patch(deployment, resize) for resize in plan)
    return tuple(patch for patch in patches if patch is not None)


def _patch(deployment: Deployment, resize: Resize) -> PatchReplicaSet | None:
    replica_set = resize.replica_set
    before, after = desired_replicas(replica_set), resize.replicas
    current = annotations_of(replica_set.metadata)
    patch: dict[str, Any] = {}
    if changed := changed_annotations(current, size_annotations_of(deployment)):
        patch["metadata"] = {"annotations": changed}
    if before != after:
        patch["spec"] = {"replicas": after}
    if not patch:
        return None
    return PatchReplicaSet(
        replica_set,
        patch,
        wanted=f"size {after}",
        event=scaling_event(replica_set, before, after),
    )
