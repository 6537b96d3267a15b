"""The rolling update that creates the new pod beside the old one (maxSurge)."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.apps.daemonset.bounds import Bounds
from controller_manager.controllers.apps.daemonset.placement import Fit
from controller_manager.controllers.apps.daemonset.plan import (
    Deletion,
    Plan,
    in_burst,
)
from controller_manager.controllers.apps.daemonset.view import View


class _Found(Struct):
    """What the nodes need, and the numbers that limit it."""

    replacements: list[str] = msgspec.field(default_factory=list)
    """Nodes without a second pod whose old pod is not available."""

    candidates: list[str] = msgspec.field(default_factory=list)
    """Nodes without a second pod whose old pod is available."""

    deletions: list[Deletion] = msgspec.field(default_factory=list)
    misplaced: list[Deletion] = msgspec.field(default_factory=list)
    """Available old pods where no pod is wanted any more."""

    surge: int = 0
    available: int = 0


def plan_surge(view: View, bounds: Bounds, now: datetime) -> Plan:
    """Create new pods beside old ones within the bound; delete old ones beside new.

    An old pod that is not available gets its new pod at once, whatever the bound.
    Where no pod is wanted any more, an available old pod stays until more pods are
    available than nodes must have one: with maxSurge the user expects all to serve.
    """
    found = _Found()
    for node in view.nodes_of_update():
        _look_at(view, node, found, now)
    within_bound = found.candidates[: max(bounds.surge - found.surge, 0)]
    dispensable = found.misplaced[: max(found.available - bounds.desired, 0)]
    return in_burst(
        (*found.replacements, *within_bound), (*found.deletions, *dispensable)
    )


def _look_at(view: View, node: str, found: _Found, now: datetime) -> None:
    pods = view.staying(node)
    new = [pod for pod in pods if view.is_updated(pod)]
    old = [pod for pod in pods if not view.is_updated(pod)]
    if len(new) > 1 or len(old) > 1:
        found.surge += 1  # `manage` deletes the surplus first
        return
    counted = old or new
    if counted and view.is_available(counted[0], now):
        found.available += 1
    if old and new:
        _settle(view, node, old[0], new[0], found, now)
    elif old:
        _consider(view, node, old, found, now)


def _settle(
    view: View, node: str, old: Pod, new: Pod, found: _Found, now: datetime
) -> None:
    """Delete the old pod beside a new one that is available."""
    if view.is_available(new, now):
        found.deletions.append(Deletion(node, old))
    else:
        found.surge += 1


def _consider(
    view: View, node: str, old: Sequence[Pod], found: _Found, now: datetime
) -> None:
    """Have an old pod replaced, or deleted where no pod is wanted any more."""
    is_wanted = view.fits.get(node) is Fit.RUN
    if view.is_available(old[0], now):
        if is_wanted:
            found.candidates.append(node)
        else:
            found.misplaced.append(Deletion(node, old[0]))
    elif is_wanted:
        found.replacements.append(node)
    else:
        found.deletions.append(Deletion(node, old[0]))
