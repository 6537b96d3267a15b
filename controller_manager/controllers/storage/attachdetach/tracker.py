"""The data about volumes that the process keeps from one sync of a node to the next."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace


class TrackedVolume(Struct, frozen=True, kw_only=True):
    """The data that the process keeps about one volume of one node.

    Times are in seconds of the monotonic clock.

    - `detaching_since`: the time since which no pod needs the volume on this node.
    - `lost_since`: the time since which the node lists the volume, although its
      attachment is not attached.
    - `attached_since`: the time since which the node's status should list the volume.
    - `trying_since`, `failures`, `not_before`: the start of the present attempt to
      attach the volume, the number of failed attempts, and the earliest time of the
      next attempt.
    - `announced`: the uid of the attachment whose success was reported.
    - `multi_attach_reported`: users were told that another node has the volume.
    - `deleted`: the uid of the attachment that was deleted.
    """

    detaching_since: float | None = None
    lost_since: float | None = None
    attached_since: float | None = None
    trying_since: float | None = None
    failures: int = 0
    not_before: float = 0.0
    announced: str = ""
    multi_attach_reported: bool = False
    deleted: str = ""


UNTRACKED = TrackedVolume()


class Tracker:
    """The tracked data of volumes, by node and by key of the volume."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, TrackedVolume]] = {}

    def of(self, node: str) -> Mapping[str, TrackedVolume]:
        """Return the tracked data of a node's volumes."""
        return self._nodes.get(node, {})

    def get(self, node: str, key: str) -> TrackedVolume:
        """Return the tracked data of one volume."""
        return self.of(node).get(key, UNTRACKED)

    def put(self, node: str, key: str, tracked: TrackedVolume) -> None:
        """Replace the tracked data of one volume."""
        self._nodes.setdefault(node, {})[key] = tracked

    def deleted(self, node: str, key: str, uid: str) -> None:
        """Note that the attachment with this uid was deleted."""
        self.put(node, key, replace(self.get(node, key), deleted=uid))

    def replace_all(self, node: str, volumes: Mapping[str, TrackedVolume]) -> None:
        """Replace the data of all volumes of a node; drop volumes without data."""
        kept = {key: each for key, each in volumes.items() if each != UNTRACKED}
        if kept:
            self._nodes[node] = kept
        else:
            self._nodes.pop(node, None)


class PendingAttachments:
    """The exclusive volumes that this process attaches now, with their nodes.

    A volume is added before the request, and removed when the caches show the
    attachment or certainly none is there. So no two nodes get it while the caches are
    old. Upstream: the pending operations of operationexecutor.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}
        self._volumes: dict[str, set[str]] = {}

    def add(self, volume: str, node: str) -> None:
        """Add a volume, by its unique name, that is being attached to a node."""
        self._nodes[volume] = node
        self._volumes.setdefault(node, set()).add(volume)

    def remove(self, volume: str, node: str) -> None:
        """Remove a volume of this node; keep it if it belongs to another node."""
        if self._nodes.get(volume) != node:
            return
        del self._nodes[volume]
        volumes = self._volumes[node]
        volumes.discard(volume)
        if not volumes:
            del self._volumes[node]

    def node_of(self, volume: str) -> str:
        """Return the node that a volume is being attached to, "" for none."""
        return self._nodes.get(volume, "")

    def volumes_of(self, node: str) -> frozenset[str]:
        """Return the volumes that are being attached to a node."""
        return frozenset(self._volumes.get(node, ()))
