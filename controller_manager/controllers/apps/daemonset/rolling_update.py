"""The strategy RollingUpdate: its bounds, and its two forms (update.go).

Without maxSurge the old pod is deleted first; with maxSurge the new pod is created
beside the old one.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from controller_manager.api.scalars import scaled_value

from .nodes import Fit
from .pods import ROLLING_UPDATE, DaemonPods, Deletion, Plan, in_burst, surge_count


class Bounds(NamedTuple):
    """The most nodes without an available pod and with a second pod in an update.

    `desired` is the number of nodes that must have a pod.
    """

    unavailable: int
    surge: int
    desired: int


def bounds_of(placed: DaemonPods) -> Bounds:
    """Return the bounds in pods (updatedDesiredNodeCounts)."""
    # Percentages are rounded up. If both bounds are zero, one pod may be unavailable,
    # because otherwise the update could not begin.
    desired = sum(1 for fit in placed.fits.values() if fit is Fit.RUN)
    rolling = placed.daemon_set.spec.update_strategy.rolling_update
    unavailable = 0
    if rolling is not None and rolling.max_unavailable is not None:
        unavailable = scaled_value(rolling.max_unavailable, desired, round_up=True)
    surge = surge_count(placed.daemon_set, desired)
    if desired > 0 and unavailable == 0 and surge == 0:
        unavailable = 1
    return Bounds(unavailable, surge, desired)


def plan_update(placed: DaemonPods, held: Collection[str], now: datetime) -> Plan:
    """Return the plan of the next step of the update; none for OnDelete.

    The nodes of `held` get no pod: they wait to replace a deleted failed pod. Raises
    IntOrStringError for a bound that is neither a number nor a percentage.
    """
    if placed.daemon_set.spec.update_strategy.type != ROLLING_UPDATE:
        return Plan()
    if not placed.has_other_hashes():
        return Plan()
    bounds = bounds_of(placed)
    if bounds.surge > 0:
        return plan_surge(placed, bounds, held, now)
    return _plan_replacements(placed, bounds.unavailable, now)


def _plan_replacements(
    placed: DaemonPods, most_unavailable: int, now: datetime
) -> Plan:
    # A later sync creates the new pod once the old pod is gone. A node counts as
    # unavailable if it has no pod, several pods, or a pod that is not available.
    unavailable = 0
    broken: list[Deletion] = []
    serving: list[Deletion] = []
    for node in placed.nodes_of_update():
        pods = placed.staying(node)
        if len(pods) != 1:
            unavailable += 1
        elif not placed.is_available(pods[0], now):
            unavailable += 1
            if not placed.is_updated(pods[0]):
                broken.append(Deletion(node, pods[0]))
        elif not placed.is_updated(pods[0]):
            serving.append(Deletion(node, pods[0]))
    within_bound = serving[: max(most_unavailable - unavailable, 0)]
    return in_burst((), (*broken, *within_bound))


def plan_surge(
    placed: DaemonPods, bounds: Bounds, held: Collection[str], now: datetime
) -> Plan:
    """Create new pods beside old ones; delete old pods beside available new ones."""
    # The bound limits the new pods beside available old pods. An old pod that is not
    # available gets its new pod at once. On a node that must not have a pod any more,
    # an available old pod stays until more pods are available than nodes must have one:
    # with maxSurge the user expects that all of them serve. A node of `held` counts as
    # one whose new pod is not available.
    surge = available = 0
    replacements: list[str] = []
    candidates: list[str] = []
    deletions: list[Deletion] = []
    misplaced: list[Deletion] = []
    for node in placed.nodes_of_update():
        pods = placed.staying(node)
        new = [pod for pod in pods if placed.is_updated(pod)]
        old = [pod for pod in pods if not placed.is_updated(pod)]
        if len(new) > 1 or len(old) > 1:
            surge += 1  # the surplus is deleted first
            continue
        serves = any(placed.is_available(pod, now) for pod in old or new)
        available += serves
        if old and new:
            if placed.is_available(new[0], now):
                deletions.append(Deletion(node, old[0]))
            else:
                surge += 1
        elif old and placed.fits.get(node) is not Fit.RUN:
            (misplaced if serves else deletions).append(Deletion(node, old[0]))
        elif old and node in held:
            surge += 1
        elif old:
            (candidates if serves else replacements).append(node)
    within_bound = candidates[: max(bounds.surge - surge, 0)]
    dispensable = misplaced[: max(available - bounds.desired, 0)]
    return in_burst((*replacements, *within_bound), (*deletions, *dispensable))
