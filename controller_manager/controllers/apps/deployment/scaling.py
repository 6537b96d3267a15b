"""Sizes of replica sets: the bounds of a rollout, and the plan of its next step.

Upstream: deployment_util.go, scale of sync.go, rolling.go and recreate.go.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from controller_manager.api.apps.v1 import Deployment, ReplicaSet, desired_replicas
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import annotations_of
from controller_manager.api.pods import is_terminal
from controller_manager.api.scalars import (
    IntOrString,
    IntOrStringError,
    parse_int,
    scaled_value,
)

from .revisions import DESIRED_REPLICAS, MAX_REPLICAS, changed_annotations
from .rollout import ROLLING_UPDATE, Rollout, by_age

# The bounds in pods: maxSurge and maxUnavailable.


def fenceposts(
    max_surge: IntOrString, max_unavailable: IntOrString, replicas: int
) -> tuple[int, int]:
    """Return surge and unavailability in pods, never both 0 (ResolveFenceposts)."""
    # Surge is rounded up, unavailability is rounded down: 25 % of 10 are 3 and 2, 25 %
    # of 1 are 1 and 0. If both are 0, no pod could ever be replaced, so one pod may be
    # unavailable. A malformed value counts as 0.
    surge = _scaled_or_zero(max_surge, replicas, round_up=True)
    unavailable = _scaled_or_zero(max_unavailable, replicas, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, unavailable


def _scaled_or_zero(value: IntOrString, total: int, *, round_up: bool) -> int:
    try:
        return max(0, scaled_value(value, total, round_up=round_up))
    except IntOrStringError:
        return 0


def _resolved(deployment: Deployment) -> tuple[int, int]:
    rolling = deployment.spec.strategy.rolling_update
    # apps/v1 defaults both to 25 %; upstream's helper takes an absent value as 0.
    surge = (rolling.max_surge if rolling else None) or 0
    unavailable = (rolling.max_unavailable if rolling else None) or 0
    return fenceposts(surge, unavailable, desired_replicas(deployment))


def is_rolling_update(deployment: Deployment) -> bool:
    """Tell whether old pods are replaced step by step."""
    return deployment.spec.strategy.type == ROLLING_UPDATE


def max_surge(deployment: Deployment) -> int:
    """Return how many pods may exist above the wanted size."""
    return _resolved(deployment)[0] if is_rolling_update(deployment) else 0


def max_unavailable(deployment: Deployment) -> int:
    """Return how many of the wanted pods may be unavailable."""
    replicas = desired_replicas(deployment)
    if not is_rolling_update(deployment) or replicas == 0:
        return 0
    return min(_resolved(deployment)[1], replicas)


def max_total(deployment: Deployment) -> int:
    """Return the wanted size with surge."""
    return desired_replicas(deployment) + max_surge(deployment)


# Sizes.


class Resize(NamedTuple):
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
    """Return how many available pods remain once the replica set has its size."""
    # Right after a replica set was scaled down, it still reports pods that are about to
    # be deleted. Upstream counts them as available, and so deletes more pods than
    # allowed (kubernetes#22719).
    return min(replica_set.status.available_replicas, desired_replicas(replica_set))


def active(replica_sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return the replica sets that want pods."""
    return [each for each in replica_sets if desired_replicas(each) > 0]


def new_replica_set_size(
    deployment: Deployment, others: Iterable[ReplicaSet], current: int
) -> int:
    """Return the size that the new replica set may have now (NewRSNewReplicas)."""
    wanted = desired_replicas(deployment)
    if not is_rolling_update(deployment):
        return wanted
    free = max_total(deployment) - total_replicas(others) - current
    if free <= 0:
        return current
    return current + min(free, wanted - current)


def is_scaling_event(rollout: Rollout) -> bool:
    """Tell whether the deployment's size has changed since its last scaling."""
    # Not for a Recreate deployment with pods of several templates, for which
    # `plan_scaling` has no plan. Upstream checks its size without end and never
    # continues the rollout. The strategy gives the deployment its new size anyway.
    deployment = rollout.deployment
    wanted = desired_replicas(deployment)
    with_pods = active(rollout.all)
    if not is_rolling_update(deployment) and len(with_pods) > 1:
        return False
    return any(desired_annotation(each) not in (None, wanted) for each in with_pods)


def plan_scaling(rollout: Rollout) -> Plan:
    """Return the plan for a changed size of the deployment (scale, sync.go)."""
    # If one replica set has all pods, it gets the whole change. If the new one is
    # complete, old ones are scaled to zero. During a rolling update the change is
    # distributed in proportion to size, so that it does not speed up a broken rollout.
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
    # Example: 10 wanted with surge 3 (13 at most), sizes 8 and 5; scaled to 15 (18 at
    # most) there are 5 to add. 8·18/13 = 11.08 → +3, 5·18/13 = 6.92 → +2. The remainder
    # of rounding goes to the largest.
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
    # It goes to the largest size, then to the next ones. Upstream changes only the
    # largest: of four replica sets with a pod each, scaled to two pods in total, it
    # leaves three.
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
    # Half a pod is rounded up.
    return (2 * size * max_total(deployment) + before) // (2 * before) - size


def size_annotations_of(deployment: Deployment) -> dict[str, str]:
    """Return the annotations that a replica set gets when it is scaled."""
    return {
        DESIRED_REPLICAS: str(desired_replicas(deployment)),
        MAX_REPLICAS: str(max_total(deployment)),
    }


def desired_annotation(replica_set: ReplicaSet) -> int | None:
    """Return the deployment's size when this replica set was last scaled."""
    return parse_int(annotations_of(replica_set.metadata).get(DESIRED_REPLICAS, ""), 32)


def max_annotation(replica_set: ReplicaSet) -> int | None:
    """Return the deployment's size with surge when it was last scaled."""
    size = parse_int(annotations_of(replica_set.metadata).get(MAX_REPLICAS, ""), 32)
    return size if size is not None and size >= 0 else None


def size_patch(
    deployment: Deployment, replica_set: ReplicaSet, size: int
) -> dict[str, Any]:
    """Return the patch for the size and its annotations; empty for no change."""
    current = annotations_of(replica_set.metadata)
    patch: dict[str, Any] = {}
    if changed := changed_annotations(current, size_annotations_of(deployment)):
        patch["metadata"] = {"annotations": changed}
    if size != desired_replicas(replica_set):
        patch["spec"] = {"replicas": size}
    return patch


# The strategy RollingUpdate. Two bounds hold at every step: at most the wanted number
# of pods plus maxSurge, and at least the wanted number of available pods minus
# maxUnavailable.


def plan_rolling(rollout: Rollout) -> Plan:
    """Return the next step: scale the new replica set up, else old ones down."""
    new, wanted = rollout.new, desired_replicas(rollout.deployment)
    if new is None:
        return ()
    grown, current = wanted, desired_replicas(new)
    if current < wanted:
        grown = new_replica_set_size(rollout.deployment, rollout.old, current)
    if grown != current:
        return (Resize(new, grown),)
    return _shrink_old(rollout, new)


def _shrink_old(rollout: Rollout, new: ReplicaSet) -> Plan:
    # Example: 10 wanted, maxUnavailable 2, maxSurge 3; 8 old pods, 5 new pods of which
    # 0 are available: 13 - 8 - 5 = 0 pods may be deleted, because every new pod may
    # fail. If 2 new pods are available, 13 - 8 - 3 = 2 pods may be deleted.
    old = active(rollout.old)
    deployment = rollout.deployment
    min_available = desired_replicas(deployment) - max_unavailable(deployment)
    unavailable_new = desired_replicas(new) - lasting_available(new)
    everything = total_replicas(old) + desired_replicas(new)
    budget = everything - min_available - unavailable_new
    if not old or budget <= 0:
        return ()
    sizes = {each.metadata.uid: desired_replicas(each) for each in old}
    _take_unhealthy(old, sizes, budget)
    surplus = sum(map(lasting_available, (*old, new))) - min_available
    _take_oldest(old, sizes, surplus)
    return tuple(
        Resize(each, sizes[each.metadata.uid])
        for each in old
        if sizes[each.metadata.uid] != desired_replicas(each)
    )


def _take_unhealthy(old: list[ReplicaSet], sizes: dict[str, int], budget: int) -> None:
    """Remove unavailable pods first, which does not reduce the available pods."""
    for each in old:
        unhealthy = desired_replicas(each) - lasting_available(each)
        taken = min(budget, unhealthy)
        sizes[each.metadata.uid] -= taken
        budget -= taken


def _take_oldest(old: list[ReplicaSet], sizes: dict[str, int], surplus: int) -> None:
    """Remove available pods, beginning with the oldest replica set."""
    for each in old:
        taken = max(0, min(surplus, sizes[each.metadata.uid]))
        sizes[each.metadata.uid] -= taken
        surplus -= taken


# The strategy Recreate.


def plan_scale_down(rollout: Rollout) -> Plan:
    """Return the plan of the first step: scale all old replica sets to zero."""
    return tuple(Resize(each, 0) for each in active(rollout.old))


def plan_scale_up(rollout: Rollout) -> Plan:
    """Return the plan of the last step: scale the new replica set to its full size."""
    wanted = desired_replicas(rollout.deployment)
    if rollout.new is None or desired_replicas(rollout.new) == wanted:
        return ()
    return (Resize(rollout.new, wanted),)


def old_pods_running(rollout: Rollout, old_pods: Iterable[Pod]) -> bool:
    """Tell whether a pod of an old template may still run, also a terminating one."""
    if any(each.status.replicas > 0 for each in rollout.old):
        return True
    return any(not is_terminal(pod) for pod in old_pods)
