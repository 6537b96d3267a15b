"""The rolling update that replaces a pod by deleting it first (rollingUpdate)."""

from datetime import datetime

from controller_manager.controllers.apps.daemonset.bounds import (
    ROLLING_UPDATE,
    bounds_of,
)
from controller_manager.controllers.apps.daemonset.plan import (
    Deletion,
    Plan,
    in_burst,
)
from controller_manager.controllers.apps.daemonset.surge import plan_surge
from controller_manager.controllers.apps.daemonset.view import View


def plan_update(view: View, now: datetime) -> Plan:
    """Return the plan of the update strategy's next step; OnDelete has none.

    Raises IntOrStringError for a bound that is neither a number nor a percentage.
    """
    if view.daemon_set.spec.update_strategy.type != ROLLING_UPDATE:
        return Plan()
    if not view.has_other_hashes():
        return Plan()
    bounds = bounds_of(view)
    if bounds.surge > 0:
        return plan_surge(view, bounds, now)
    return _plan_replacements(view, bounds.unavailable, now)


def _plan_replacements(view: View, most_unavailable: int, now: datetime) -> Plan:
    """Delete old pods: all that are unavailable, and others within the bound.

    `manage` creates the new pod once the old one is gone. A node counts as
    unavailable without a pod, with several, and with one that is not available.
    """
    unavailable = 0
    broken: list[Deletion] = []
    serving: list[Deletion] = []
    for node in view.nodes_of_update():
        pods = view.staying(node)
        if len(pods) != 1:
            unavailable += 1
        elif not view.is_available(pods[0], now):
            unavailable += 1
            if not view.is_updated(pods[0]):
                broken.append(Deletion(node, pods[0]))
        elif not view.is_updated(pods[0]):
            serving.append(Deletion(node, pods[0]))
    within_bound = serving[: max(most_unavailable - unavailable, 0)]
    return in_burst((), (*broken, *within_bound))
