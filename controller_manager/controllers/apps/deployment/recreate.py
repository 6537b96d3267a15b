"""The strategy Recreate (recreate.go)."""

from collections.abc import Iterable

from controller_manager.api.core.v1 import Pod
from controller_manager.api.pods import is_terminal
from controller_manager.api.workloads import desired_replicas

from .scaling import Plan, Resize, active
from .view import Rollout


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
    """Tell whether a pod of an old template may still be running.

    A terminating pod counts until it is gone; a pod that has ended does not count.
    """
    if any(each.status.replicas > 0 for each in rollout.old):
        return True
    return any(not is_terminal(pod) for pod in old_pods)
