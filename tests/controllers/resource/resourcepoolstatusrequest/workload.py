"""A driver that publishes its pools again, and users who request their status."""

import asyncio
import random
from typing import TYPE_CHECKING, Final

from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


PLURAL: Final = "resourcepoolstatusrequests"
DRIVER: Final = "pools.example.com"
POOLS: Final = ("a", "b")

PARTS: Final = 2
"""The slices of each pool."""


def devices_of(generation: int) -> int:
    """Return the number of devices of each slice of a generation."""
    return generation % 4 + 1


def ask(world: "World", name: str) -> None:
    """Request the status of all pools of the driver."""
    request = {"metadata": {"name": name}, "spec": {"driver": DRIVER}}
    world.server.objects.create(world.kind(PLURAL), "", request)


def publish(world: "World", pool: str, part: int, generation: int) -> None:
    """Publish a slice of a pool, or publish it again."""
    name = f"{pool}-{part}"
    spec = {
        "driver": DRIVER,
        "nodeName": "n",
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": PARTS},
        "devices": [
            {"name": f"{part}-{each}"} for each in range(devices_of(generation))
        ],
    }
    found = world.find("resourceslices", "", name)
    if found is None:
        kind = world.kind("resourceslices")
        body = {"metadata": {"name": name}, "spec": spec}
        world.server.objects.create(kind, "", body)
        return
    world.change("resourceslices", found, lambda obj: obj.update(spec=spec))


class PoolUsers(Workload):
    """The driver changes its slices in turn; users create requests at any time."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"pools {world.seed}")
        self._generations = dict.fromkeys(POOLS, 1)
        self._asked = 0

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            for pool in POOLS:
                for part in range(PARTS):
                    publish(self.world, pool, part, 1)

    async def use(self, operations: int) -> None:
        for _ in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            if self._rng.random() < 0.5:
                ask(self.world, f"question-{self._asked}")
                self._asked += 1
            else:
                await self._publish_anew(self._rng.choice(POOLS))

    async def _publish_anew(self, pool: str) -> None:
        self._generations[pool] += 1
        for part in range(PARTS):
            publish(self.world, pool, part, self._generations[pool])
            await asyncio.sleep(self._rng.uniform(0, 10))
