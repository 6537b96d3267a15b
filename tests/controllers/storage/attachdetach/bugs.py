"""Deliberate bugs of the attach-detach controller."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from controller_manager.api.core.v1 import Node
from controller_manager.controllers.storage.attachdetach import (
    apply,
    decide,
    plan,
    reconciler,
    volumes,
)
from controller_manager.controllers.storage.attachdetach.apply import Applier
from controller_manager.controllers.storage.attachdetach.decide import Rules, Step
from controller_manager.controllers.storage.attachdetach.holds import Holds
from controller_manager.controllers.storage.attachdetach.places import (
    Memory,
    NodeView,
    Place,
)
from controller_manager.controllers.storage.attachdetach.plan import Plan
from controller_manager.controllers.storage.attachdetach.reconciler import (
    AttachDetachReconciler,
)
from tests.simulation.planted import Bug

_plan = plan.plan
_detach = decide._detach


_list = Applier._list


async def _list_blindly(applier: Applier, view: NodeView, plan: Plan) -> Node | None:
    """Write the list of a node whatever the node has become meanwhile."""
    if view.node is None:
        return None
    metadata = replace(view.node.metadata, resource_version="")
    node = replace(view.node, metadata=metadata)
    return await _list(applier, replace(view, node=node), plan)


async def _trust_the_cache(*_: object, **__: object) -> None:
    """Ask nobody whether a volume is still attached."""


def _keep_the_list(
    view: NodeView, memories: Mapping[str, Memory], now: float, rules: Rules
) -> Plan:
    """Let the list of a node only grow."""
    made = _plan(view, memories, now, rules)
    return made if made.joining else replace(made, listed=None)


def _by_unique_name(place: Place, _: Node, names: Iterable[str]) -> str:
    """Compare volumes by a name that an old cache does not know."""
    return place.unique_name if place.unique_name in names else ""


def _share(_: Iterable[str]) -> bool:
    return False


def _take_nothing(*_: object) -> None:
    """Hold no volume for a node."""


def _detach_at_once(
    place: Place, memory: Memory, view: NodeView, now: float, rules: Rules
) -> Step:
    """Detach volumes that their nodes use."""
    step = _detach(replace(place, in_use=False), memory, view, now, rules)
    return replace(step, forced=decide.Reason.TIMEOUT)


_WATCHES: Final[tuple[Any, ...]] = tuple(AttachDetachReconciler.watches)

BUGS: Final[Mapping[str, Bug]] = {
    "write the list of volumes of an old cache": Bug(
        0, Applier, "_list", _list_blindly, "use-of-a-volume-is-not-seen"
    ),
    "take volumes that are in use off the list": Bug(
        0, decide, "_detach", _detach_at_once, "volume-moves"
    ),
    "list a volume until its attachment is gone": Bug(
        0, reconciler, "plan", _keep_the_list, "volume-moves"
    ),
    "attach exclusive volumes to many nodes": Bug(
        0, volumes, "is_exclusive", _share, "two-nodes-want-one-volume"
    ),
    "hold no volume for a node": Bug(
        0, Holds, "take", _take_nothing, "two-nodes-want-one-volume"
    ),
    "list a volume that is being detached": Bug(
        0, Applier, "_check_attachment", _trust_the_cache, "attachment-goes-unseen"
    ),
    "detach what a node uses and no cache knows": Bug(
        0, apply, "_of_place", _by_unique_name, "attached-volume-is-not-known"
    ),
    "miss that a pod is gone": Bug(
        0,
        AttachDetachReconciler,
        "watches",
        (_WATCHES[0], replace(_WATCHES[1], on=("add",)), *_WATCHES[2:]),
        "pod-goes-that-never-used-its-volume",
    ),
}
