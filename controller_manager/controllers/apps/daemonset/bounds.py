"""How far a rolling update may deviate from one pod on each node."""

from typing import Final, NamedTuple

from controller_manager.api.apps.v1 import DaemonSet
from controller_manager.api.intstr import scaled_value
from controller_manager.controllers.apps.daemonset.placement import Fit
from controller_manager.controllers.apps.daemonset.view import View

ROLLING_UPDATE: Final = "RollingUpdate"
"""The update strategy that replaces pods; the other one is OnDelete."""


class Bounds(NamedTuple):
    """How far an update may deviate: nodes without an available pod, second pods."""

    unavailable: int
    surge: int
    desired: int


def allows_surge(daemon_set: DaemonSet) -> bool:
    """Tell whether a node may have two pods during an update (AllowsSurge)."""
    return surge_count(daemon_set, 1) > 0


def surge_count(daemon_set: DaemonSet, total: int) -> int:
    """Return how many of `total` nodes may have a second pod (SurgeCount).

    Raises IntOrStringError for a bound that is neither a number nor a percentage.
    """
    strategy = daemon_set.spec.update_strategy
    rolling = strategy.rolling_update
    if strategy.type != ROLLING_UPDATE or rolling is None or rolling.max_surge is None:
        return 0
    return scaled_value(rolling.max_surge, total, round_up=True)


def bounds_of(view: View) -> Bounds:
    """Return the bounds in pods, of those that are desired (updatedDesiredNodeCounts).

    Percentages are rounded up. If both bounds are zero, one pod may be unavailable,
    because otherwise the update could not begin.
    """
    desired = sum(1 for fit in view.fits.values() if fit is Fit.RUN)
    rolling = view.daemon_set.spec.update_strategy.rolling_update
    unavailable = 0
    if rolling is not None and rolling.max_unavailable is not None:
        unavailable = scaled_value(rolling.max_unavailable, desired, round_up=True)
    surge = surge_count(view.daemon_set, desired)
    if desired > 0 and unavailable == 0 and surge == 0:
        unavailable = 1
    return Bounds(unavailable, surge, desired)
