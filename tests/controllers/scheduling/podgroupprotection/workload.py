"""Users who replace groups of pods, and the pods in them."""

import asyncio
import random
from typing import TYPE_CHECKING, Final

from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


PLURAL: Final = "podgroups"
GROUPS: Final = "groups"
"""The namespace of the groups; quotas and edits of pods are in another one."""

_NAMES: Final = ("training", "inference")
_IN_USE: Final = 10.0


def create_group(world: "World", namespace: str, name: str) -> None:
    """Create a group."""
    group = {
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"basic": {}}},
    }
    world.server.objects.create(world.kind(PLURAL), namespace, group)


def create_pod(world: "World", namespace: str, name: str) -> None:
    """Create a pod in the group of the same name."""
    pod = {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "c", "image": "app:v1"}],
            "schedulingGroup": {"podGroupName": name},
        },
    }
    world.server.objects.create(world.kind("pods"), namespace, pod)


class GroupUsers(Workload):
    """Users of two groups, each with a pod."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"groups {world.seed}")

    def create_objects(self, namespace: str) -> None:
        if namespace != NAMESPACE:
            return
        self.world.create_namespace(GROUPS)
        for name in _NAMES:
            create_group(self.world, GROUPS, name)
            create_pod(self.world, GROUPS, name)

    async def use(self, operations: int) -> None:
        for _ in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            await self._replace(self._rng.choice(_NAMES))

    async def _replace(self, name: str) -> None:
        """Delete a group and its pod, in this order or in that; create both again."""
        plurals = [PLURAL, "pods"]
        self._rng.shuffle(plurals)
        for plural in plurals:
            # A fault may have deleted the pod.
            if (found := self.world.find(plural, GROUPS, name)) is not None:
                self.world.delete(plural, found)
            await asyncio.sleep(self._rng.uniform(0, _IN_USE))
        for plural in plurals:
            await self.world.until_gone(plural, GROUPS, name)
        create_group(self.world, GROUPS, name)
        create_pod(self.world, GROUPS, name)
