"""Which nodes wait for exclusive volumes that other nodes have."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from controller_manager.controllers.storage.attachdetach.places import NodeView, Place

_State = tuple[object, ...]


class _Wait(Struct):
    """The nodes that wait for one volume, and how it was when they were told last."""

    nodes: set[str]
    told: _State | None = None


class Waits:
    """Tells which nodes to look at again when another node has been looked at.

    A node that waits is told when the volume is gone from the node that has it, and
    when its state there has changed. It is told of each state once: two nodes that wait
    for each other do not wake each other without end.
    """

    def __init__(self) -> None:
        """Start without waits."""
        self._by_holder: dict[str, dict[str, _Wait]] = {}
        self._holders: dict[str, set[tuple[str, str]]] = {}

    def __len__(self) -> int:
        """Return how many nodes have a volume that others wait for."""
        return len(self._by_holder)

    def update(self, view: NodeView) -> None:
        """Note which volumes of other nodes a node waits for now."""
        name = view.name
        waits = {
            (holder, place.key)
            for place in view.places.values()
            for holder in (place.block.nodes if place.block is not None else ())
        }
        for holder, volume in self._holders.pop(name, set()) - waits:
            self._end(name, holder, volume)
        for holder, volume in waits:
            volumes = self._by_holder.setdefault(holder, {})
            volumes.setdefault(volume, _Wait(set())).nodes.add(name)
        if waits:
            self._holders[name] = waits

    def to_wake(self, view: NodeView) -> Iterable[str]:
        """Return the nodes that are to be looked at, after a node was."""
        return sorted(set(self._to_wake(view)))

    def _to_wake(self, view: NodeView) -> Iterator[str]:
        for volume, wait in list(self._by_holder.get(view.name, {}).items()):
            place = view.places.get(volume)
            state = _state_of(place) if place is not None else ()
            if wait.told != state:
                wait.told = state
                yield from wait.nodes

    def _end(self, name: str, holder: str, volume: str) -> None:
        volumes = self._by_holder.get(holder, {})
        if (wait := volumes.get(volume)) is None:
            return
        wait.nodes.discard(name)
        if not wait.nodes:
            del volumes[volume]
        if not volumes:
            self._by_holder.pop(holder, None)


def _state_of(place: Place) -> _State:
    attachment = place.attachment
    if attachment is None:
        return (place.is_listed, place.in_use, place.is_pending, place.pods != ())
    return (
        attachment.metadata.uid,
        attachment.metadata.deletion_timestamp,
        attachment.status.attached,
        *(place.is_listed, place.in_use, place.pods != ()),
    )
