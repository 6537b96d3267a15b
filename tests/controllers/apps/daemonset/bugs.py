"""Deliberate bugs of the daemon set controller."""

from collections.abc import Mapping, Sequence
from typing import Final

from controller_manager.api.core.v1 import Node, Pod
from controller_manager.controllers.apps.daemonset import pods, rolling_update
from controller_manager.controllers.apps.daemonset.nodes import (
    CompiledTemplate,
    Fit,
    NodeHandlers,
    TemplateTracker,
)
from controller_manager.controllers.apps.daemonset.pods import DaemonPods
from controller_manager.controllers.apps.daemonset.revisions import RevisionKeeper
from controller_manager.controllers.apps.daemonset.rolling_update import Bounds
from tests.simulation.planted import Bug


def _let_all_be_unavailable(placed: DaemonPods) -> Bounds:
    return Bounds(len(placed.fits), 0, len(placed.fits))


def _let_all_have_two_pods(placed: DaemonPods) -> Bounds:
    return Bounds(0, len(placed.fits), len(placed.fits))


def _keep_surplus_pods(*_: object) -> Sequence[Pod]:
    return []


def _miss_changes(_: NodeHandlers, __: Node, ___: Node) -> None:
    pass


def _take_unknown_for_unfit(
    self: NodeHandlers, compiled: CompiledTemplate
) -> dict[str, Fit]:
    """Use the fits of an earlier sync; take nodes without a fit for unfit."""
    unfit = dict.fromkeys((each.metadata.name for each in self.nodes.all()), Fit.NONE)
    return {**unfit, **compiled.fits(self.nodes.all)}


async def _keep_all_revisions(*_: object) -> None:
    pass


BUGS: Final[Mapping[str, Bug]] = {
    "update all nodes at once": Bug(
        1, rolling_update, "bounds_of", _let_all_be_unavailable
    ),
    "let every node have two pods": Bug(
        1, rolling_update, "bounds_of", _let_all_have_two_pods
    ),
    "keep surplus daemon pods": Bug(
        0, pods, "_surplus", _keep_surplus_pods, "daemon-pods-of-a-stranger"
    ),
    "miss changes of nodes": Bug(
        0, NodeHandlers, "_note_update", _miss_changes, "taint-under-a-daemon-pod"
    ),
    "take nodes that were not looked at for unfit": Bug(
        0, NodeHandlers, "fits", _take_unknown_for_unfit, "hundreds-of-nodes-come-back"
    ),
    "keep all revisions of daemon sets": Bug(
        2, RevisionKeeper, "clean_up", _keep_all_revisions
    ),
    "remember the templates of deleted daemon sets": Bug(
        0, TemplateTracker, "forget", lambda *_: None, "churn-of-daemon-sets"
    ),
}
