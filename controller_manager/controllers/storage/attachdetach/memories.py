"""What is remembered of the places of all nodes."""

from collections.abc import Mapping

from msgspec.structs import replace

from controller_manager.controllers.storage.attachdetach.places import NOTHING, Memory
from controller_manager.controllers.storage.attachdetach.plan import Plan


class Memories:
    """The memories of places, by node and by key; nothing of places that are gone."""

    def __init__(self) -> None:
        """Start without memories."""
        self._nodes: dict[str, dict[str, Memory]] = {}

    def __len__(self) -> int:
        """Return of how many nodes something is remembered."""
        return len(self._nodes)

    def of(self, node: str) -> Mapping[str, Memory]:
        """Return the memories of a node's places."""
        return self._nodes.get(node, {})

    def get(self, node: str, key: str) -> Memory:
        """Return the memory of one place."""
        return self.of(node).get(key, NOTHING)

    def put(self, node: str, key: str, memory: Memory) -> None:
        """Remember something of one place."""
        self._nodes.setdefault(node, {})[key] = memory

    def deleted(self, node: str, key: str, uid: str) -> None:
        """Remember that the attachment of a place was deleted."""
        self.put(node, key, replace(self.get(node, key), deleted=uid))

    def decided(self, node: str, plan: Plan) -> None:
        """Take the memories of a plan, instead of all those of its node."""
        kept = {
            key: step.memory
            for key, step in plan.steps.items()
            if step.memory != NOTHING
        }
        if kept:
            self._nodes[node] = kept
        else:
            self._nodes.pop(node, None)
