"""The strategy RollingUpdate (rolling.go).

Two bounds hold at every step: at most the wanted number of pods plus maxSurge, and at
least the wanted number of available pods minus maxUnavailable.
"""

from controller_manager.api.apps.v1 import ReplicaSet
from controller_manager.api.workloads import desired_replicas

from .fenceposts import max_unavailable
from .scaling import (
    Plan,
    Resize,
    active,
    lasting_available,
    new_replica_set_size,
    total_replicas,
)
from .view import Rollout


def plan_rolling(rollout: Rollout) -> Plan:
    """Return the next step: scale the new replica set up, else old ones down."""
    new = rollout.new
    if new is None:
        return ()
    grown = _new_size(rollout, new)
    if grown != desired_replicas(new):
        return (Resize(new, grown),)
    return _shrink_old(rollout, new)


def _new_size(rollout: Rollout, new: ReplicaSet) -> int:
    current = desired_replicas(new)
    wanted = desired_replicas(rollout.deployment)
    if current >= wanted:
        return wanted
    return new_replica_set_size(rollout.deployment, rollout.old, current)


def _shrink_old(rollout: Rollout, new: ReplicaSet) -> Plan:
    """Scale old replica sets down as far as the bound on availability allows.

    Worked example: 10 wanted, maxUnavailable 2, maxSurge 3; 8 old pods, 5 new pods of
    which 0 are available: 13 - 8 - 5 = 0 pods may be deleted, because every new pod may
    fail. If 2 new pods are available, 13 - 8 - 3 = 2 pods may be deleted.
    """
    old = active(rollout.old)
    min_available = desired_replicas(rollout.deployment) - max_unavailable(
        rollout.deployment
    )
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
