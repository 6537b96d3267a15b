"""The strategy RollingUpdate: its bounds, and its two forms (update.go).

Without maxSurge the old pod is deleted first; with maxSurge the new pod is created
beside the old one.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.api.scalars import scaled_value

from .nodes import Fit
from .pods import (
    ROLLING_UPDATE,
    DaemonPods,
    Deletion,
    Plan,
    in_burst,
    surge_count,
)


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


class _SurgePlan(Struct):
    """The changes that nodes need, and the numbers that limit these changes."""

    held: Collection[str]
    """Nodes that get no pod yet."""

    replacements: list[str] = msgspec.field(default_factory=list)
    """Nodes without a second pod whose old pod is not available."""

    candidates: list[str] = msgspec.field(default_factory=list)
    """Nodes without a second pod whose old pod is available."""

    deletions: list[Deletion] = msgspec.field(default_factory=list)
    misplaced: list[Deletion] = msgspec.field(default_factory=list)
    """Available old pods on nodes that must not have a pod any more."""

    surge: int = 0
    available: int = 0


def plan_surge(
    placed: DaemonPods, bounds: Bounds, held: Collection[str], now: datetime
) -> Plan:
    """Create new pods beside old ones; delete old pods beside available new ones."""
    # The bound limits the new pods beside available old pods. An old pod that is not
    # available gets its new pod at once. On a node that must not have a pod any more,
    # an available old pod stays until more pods are available than nodes must have one:
    # with maxSurge the user expects that all of them serve. A node of `held` counts as
    # one whose new pod is not available.
    found = _SurgePlan(held)
    for node in placed.nodes_of_update():
        _add_node(placed, node, found, now)
    within_bound = found.candidates[: max(bounds.surge - found.surge, 0)]
    dispensable = found.misplaced[: max(found.available - bounds.desired, 0)]
    return in_burst(
        (*found.replacements, *within_bound), (*found.deletions, *dispensable)
    )


def _add_node(placed: DaemonPods, node: str, found: _SurgePlan, now: datetime) -> None:
    pods = placed.staying(node)
    new = [pod for pod in pods if placed.is_updated(pod)]
    old = [pod for pod in pods if not placed.is_updated(pod)]
    if len(new) > 1 or len(old) > 1:
        found.surge += 1  # the surplus is deleted first
        return
    counted = old or new
    if counted and placed.is_available(counted[0], now):
        found.available += 1
    if old and new:
        _plan_second_pod(placed, node, old[0], new[0], found, now)
    elif old:
        _plan_single_pod(placed, node, old, found, now)


def _plan_second_pod(
    placed: DaemonPods, node: str, old: Pod, new: Pod, found: _SurgePlan, now: datetime
) -> None:
    if placed.is_available(new, now):
        found.deletions.append(Deletion(node, old))
    else:
        found.surge += 1


def _plan_single_pod(
    placed: DaemonPods, node: str, old: Sequence[Pod], found: _SurgePlan, now: datetime
) -> None:
    is_available = placed.is_available(old[0], now)
    if placed.fits.get(node) is Fit.RUN:
        if node in found.held:
            found.surge += 1
        elif is_available:
            found.candidates.append(node)
        else:
            found.replacements.append(node)
    elif is_available:
        found.misplaced.append(Deletion(node, old[0]))
    else:
        found.deletions.append(Deletion(node, old[0]))
