"""Deliberate bugs of the attach-detach controller."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from controller_manager.api.core.v1 import Node
from controller_manager.controllers.storage.attachdetach import (
    AttachDetachOptions,
    controller,
    plan,
    volumes,
)
from controller_manager.controllers.storage.attachdetach.controller import (
    AttachDetachReconciler,
)
from controller_manager.controllers.storage.attachdetach.plan import (
    ForcedDetach,
    NodePlan,
    VolumePlan,
)
from controller_manager.controllers.storage.attachdetach.tracker import (
    PendingAttachments,
    TrackedVolume,
)
from controller_manager.controllers.storage.attachdetach.view import (
    NodeView,
    NodeVolume,
)
from tests.simulation.planted import Bug

_plan_node = plan.plan_node
_detach = plan._detach


_update = AttachDetachReconciler._update_node_status


async def _write_an_old_list(
    attacher: AttachDetachReconciler, view: NodeView, plan: NodePlan
) -> Node | None:
    """Write the list of a node, although the node may have changed meanwhile."""
    if view.node is None:
        return None
    metadata = replace(view.node.metadata, resource_version="")
    node = replace(view.node, metadata=metadata)
    return await _update(attacher, replace(view, node=node), plan)


async def _trust_the_cache(*_: object, **__: object) -> None:
    """Do not check that a volume is still attached."""


def _keep_the_list(
    view: NodeView,
    tracked: Mapping[str, TrackedVolume],
    now: float,
    options: AttachDetachOptions,
) -> NodePlan:
    """Let the list of a node only grow."""
    planned = _plan_node(view, tracked, now, options)
    return planned if planned.added else replace(planned, listed=None)


def _by_unique_name(node_volume: NodeVolume, _: Node, names: Iterable[str]) -> str:
    """Compare volumes by a name that an old cache does not know."""
    return node_volume.unique_name if node_volume.unique_name in names else ""


def _share(_: Iterable[str]) -> bool:
    return False


def _add_nothing(*_: object) -> None:
    """Do not note that a volume is being attached."""


def _detach_at_once(
    node_volume: NodeVolume,
    tracked: TrackedVolume,
    view: NodeView,
    now: float,
    options: AttachDetachOptions,
) -> VolumePlan:
    """Detach volumes that their nodes use."""
    planned = _detach(replace(node_volume, in_use=False), tracked, view, now, options)
    return replace(planned, forced=ForcedDetach.TIMEOUT)


_WATCHES: Final[tuple[Any, ...]] = tuple(AttachDetachReconciler.watches)

BUGS: Final[Mapping[str, Bug]] = {
    "write the list of volumes of an old cache": Bug(
        0,
        AttachDetachReconciler,
        "_update_node_status",
        _write_an_old_list,
        "use-of-a-volume-is-not-seen",
    ),
    "take volumes that are in use off the list": Bug(
        0, plan, "_detach", _detach_at_once, "volume-moves"
    ),
    "list a volume until its attachment is gone": Bug(
        0, controller, "plan_node", _keep_the_list, "volume-moves"
    ),
    "attach exclusive volumes to many nodes": Bug(
        0, volumes, "is_exclusive", _share, "two-nodes-want-one-volume"
    ),
    "note no pending attachment": Bug(
        0, PendingAttachments, "add", _add_nothing, "two-nodes-want-one-volume"
    ),
    "list a volume that is being detached": Bug(
        0,
        AttachDetachReconciler,
        "_check_attachment",
        _trust_the_cache,
        "attachment-goes-unseen",
    ),
    "detach a used volume that no cache shows": Bug(
        0, controller, "_name_among", _by_unique_name, "attached-volume-is-not-known"
    ),
    "miss that a pod with attached volumes is gone": Bug(
        0,
        AttachDetachReconciler,
        "watches",
        (_WATCHES[0], replace(_WATCHES[1], on=("add",)), *_WATCHES[2:]),
        "pod-goes-that-never-used-its-volume",
    ),
}
