"""Which node is about to get an exclusive volume, before any cache shows it.

Upstream: the pending operations of operationexecutor, one for each volume.
"""


class Holds:
    """The exclusive volumes that this process attaches now, with their nodes.

    A hold is taken before the request is sent. It ends once the caches show the
    attachment, or once it is certain that there is none.
    """

    def __init__(self) -> None:
        """Start without holds."""
        self._nodes: dict[str, str] = {}
        self._volumes: dict[str, set[str]] = {}

    def __len__(self) -> int:
        """Return how many volumes are held."""
        return len(self._nodes)

    def take(self, volume: str, node: str) -> None:
        """Hold a volume, by its unique name, for a node."""
        self._nodes[volume] = node
        self._volumes.setdefault(node, set()).add(volume)

    def release(self, volume: str, node: str) -> None:
        """End the hold of a node; the hold of another node stays."""
        if self._nodes.get(volume) != node:
            return
        del self._nodes[volume]
        held = self._volumes[node]
        held.discard(volume)
        if not held:
            del self._volumes[node]

    def holder(self, volume: str) -> str:
        """Return the node that a volume is held for, "" for none."""
        return self._nodes.get(volume, "")

    def of(self, node: str) -> frozenset[str]:
        """Return the volumes that are held for a node."""
        return frozenset(self._volumes.get(node, ()))
