"""Nodes that come and go, as in a cluster that is scaled up and down."""

import asyncio
import random
from typing import TYPE_CHECKING, Final

from tests.simulation.workload import Workload

if TYPE_CHECKING:
    from tests.simulation.world import World

_MOST: Final = 4
"""Nodes at a time, beside the three that stay; there are ranges for eight."""

_PREFIX: Final = "passing-"


class PassingNodes(Workload):
    """Creates nodes without a kubelet, and deletes them soon; each name is new."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"passing nodes {world.seed}")

    async def use(self, operations: int) -> None:
        """Create a node or delete one, each time."""
        for _ in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            name = f"{_PREFIX}{self._rng.randrange(_MOST)}"
            found = self.world.find("nodes", "", name)
            if found is not None:
                self.world.delete("nodes", found)
                continue
            # No pod of a deployment must wait for a kubelet that does not exist.
            node = {"metadata": {"name": name}, "spec": {"unschedulable": True}}
            kind = self.world.kind("nodes")
            self.world.server.objects.create(kind, "", node)

    async def clean_up(self) -> None:
        """Delete the nodes that are left: none of them is ever ready."""
        for node in self.world.stored("nodes"):
            if node["metadata"]["name"].startswith(_PREFIX):
                self.world.delete("nodes", node)
