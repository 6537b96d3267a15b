"""Deliberate bugs of the controller of the nodes' TTL."""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.core.v1 import Node
from controller_manager.controllers.nodes.ttl import controller
from controller_manager.controllers.nodes.ttl.controller import STEPS, TTLReconciler
from controller_manager.runtime.outcome import DONE, Outcome
from tests.simulation.planted import Bug

_EDITED: Final = "ttl-of-a-node-is-edited"
_MANY: Final = "ttl-of-many-nodes"
_reconcile = TTLReconciler.reconcile


async def _only_without(controller: TTLReconciler, node: Node) -> Outcome:
    annotations = node.metadata.annotations
    if annotations is not None and annotations.ttl:
        return DONE
    return await _reconcile(controller, node)


def _without_overlap(nodes: int, _: int) -> int:
    """Change the step as soon as another one fits."""
    return next(i for i, each in enumerate(STEPS) if nodes <= each.largest)


BUGS: Final[Mapping[str, Bug]] = {
    "leave an edited TTL": Bug(0, TTLReconciler, "reconcile", _only_without, _EDITED),
    "tell only new nodes the new TTL": Bug(
        0, TTLReconciler, "watches", TTLReconciler.watches[:1], _MANY
    ),
    "change the TTL to and fro": Bug(
        0, controller, "step_for", _without_overlap, _MANY
    ),
}
