"""Users who ask for migrations, and give some of them up again."""

import asyncio
import random
from typing import TYPE_CHECKING, Final

from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


PLURAL: Final = "storageversionmigrations"
RESOURCES: Final = ("configmaps", "deployments.apps")

_CONFIG_MAPS: Final = 6


class Migrations(Workload):
    """Requests for migrations of two resources, several at a time."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"migrations {world.seed}")
        self._asked = 0

    def create_objects(self, namespace: str) -> None:
        if namespace != NAMESPACE:
            return
        for number in range(_CONFIG_MAPS):
            obj = {"metadata": {"name": f"stored-{number}"}}
            kind = self.world.kind("configmaps")
            self.world.server.objects.create(kind, NAMESPACE, obj)

    async def use(self, operations: int) -> None:
        for _ in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            if self._asked and self._rng.random() < 0.15:
                self._give_up(f"migration-{self._rng.randrange(self._asked)}")
            else:
                ask(self.world, f"migration-{self._asked}", self._rng.choice(RESOURCES))
                self._asked += 1

    def _give_up(self, name: str) -> None:
        if (found := self.world.find(PLURAL, "", name)) is not None:
            self.world.delete(PLURAL, found)


def ask(world: "World", name: str, resource: str) -> None:
    """Ask for a migration."""
    plural, _, group = resource.partition(".")
    wanted = {"resource": plural, **({"group": group} if group else {})}
    obj = {"metadata": {"name": name}, "spec": {"resource": wanted}}
    world.server.objects.create(world.kind(PLURAL), "", obj)
