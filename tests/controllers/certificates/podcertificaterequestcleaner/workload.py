"""A workload: kubelets create requests of pods, and leave them."""

import asyncio
import random
from typing import TYPE_CHECKING, Final

from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


PLURAL: Final = "podcertificaterequests"


def create_request(world: "World", name: str) -> None:
    """Create a request as a kubelet does."""
    request = {"metadata": {"name": name}, "spec": {"podName": name}}
    world.server.objects.create(world.kind(PLURAL), NAMESPACE, request)


class PodRequesters(Workload):
    """Kubelets that request certificates, and pods that are gone with theirs."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"requests of pods {world.seed}")

    async def use(self, operations: int) -> None:
        for number in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            found = self.world.stored(PLURAL, NAMESPACE)
            if found and self._rng.random() < 0.3:
                self.world.delete(PLURAL, self._rng.choice(found))
            else:
                create_request(self.world, f"request-{number}")
