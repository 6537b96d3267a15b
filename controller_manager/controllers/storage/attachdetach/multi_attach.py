"""Exclusive volumes that other nodes have: the nodes that wait, and what users read."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import Pod

from .view import MultiAttach, NodeView, NodeVolume
from .volumes import Volume

_EXCLUSIVE: Final = (
    "Volume is already exclusively attached to one node and can't be attached to "
    "another"
)

_State = tuple[object, ...]


class _Waiters(Struct):
    """The nodes that wait for one volume, and its state when they were last synced."""

    nodes: set[str]
    last_state: _State | None = None


class MultiAttachWaiters:
    """Finds the nodes to sync again after the sync of another node.

    A node that waits for a volume is synced when the other node has lost the volume,
    and when the state of the volume there has changed. It is synced once for each
    state: two nodes that wait for each other do not wake each other without end.
    """

    def __init__(self) -> None:
        self._by_holder: dict[str, dict[str, _Waiters]] = {}
        self._holders: dict[str, set[tuple[str, str]]] = {}

    def update(self, view: NodeView) -> None:
        """Note the volumes of other nodes that a node waits for now."""
        name = view.name
        wanted = {
            (holder, each.key)
            for each in view.volumes.values()
            for holder in (each.multi_attach.nodes if each.multi_attach else ())
        }
        for holder, volume in self._holders.pop(name, set()) - wanted:
            self._remove(name, holder, volume)
        for holder, volume in wanted:
            volumes = self._by_holder.setdefault(holder, {})
            volumes.setdefault(volume, _Waiters(set())).nodes.add(name)
        if wanted:
            self._holders[name] = wanted

    def to_sync(self, view: NodeView) -> Iterable[str]:
        """Return the names of the nodes to sync after the sync of this node."""
        found = set[str]()
        for volume, waiters in self._by_holder.get(view.name, {}).items():
            node_volume = view.volumes.get(volume)
            state = _state_of(node_volume) if node_volume is not None else ()
            if waiters.last_state != state:
                waiters.last_state = state
                found |= waiters.nodes
        return sorted(found)

    def _remove(self, name: str, holder: str, volume: str) -> None:
        volumes = self._by_holder.get(holder, {})
        if (waiters := volumes.get(volume)) is None:
            return
        waiters.nodes.discard(name)
        if not waiters.nodes:
            del volumes[volume]
        if not volumes:
            self._by_holder.pop(holder, None)


def _state_of(node_volume: NodeVolume) -> _State:
    attachment = node_volume.attachment
    about = (node_volume.is_listed, node_volume.in_use, node_volume.pods != ())
    if attachment is None:
        return (*about, node_volume.is_pending)
    metadata = attachment.metadata
    is_attached = attachment.status.attached
    return (*about, metadata.uid, metadata.deletion_timestamp, is_attached)


def multi_attach_error(volume: Volume, multi_attach: MultiAttach, pod: Pod) -> str:
    """Return the message for a pod whose volume another node has.

    It names no pod of other namespaces, which its reader may not be allowed to read.
    """
    reason = _users(multi_attach.pods, pod) if multi_attach.pods else _EXCLUSIVE
    return f'Multi-Attach error for volume "{volume.name}" {reason}'


def _users(users: Sequence[Pod], pod: Pod) -> str:
    same = pod.metadata.namespace
    local = [each.metadata.name for each in users if each.metadata.namespace == same]
    others = len(users) - len(local)
    of_others = f"{others} pod(s) in different namespaces"
    if not local:
        return f"Volume is already used by {of_others}"
    named = f"Volume is already used by pod(s) {', '.join(local)}"
    return f"{named} and {of_others}" if others else named
