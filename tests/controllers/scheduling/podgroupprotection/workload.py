"""Users who replace groups of pods, and the pods in them."""

import asyncio
from typing import TYPE_CHECKING, Final

from tests.controllers.protected_objects import ProtectedObjectUsers

if TYPE_CHECKING:
    from tests.simulation.world import World


PLURAL: Final = "podgroups"
GROUPS: Final = "groups"
"""The namespace of the groups; quotas and edits of pods are in another one."""

_NAMES: Final = ("training", "inference")


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


class GroupUsers(ProtectedObjectUsers):
    """Users of two groups, each with a pod."""

    names = _NAMES
    home = GROUPS
    protected = (PLURAL, GROUPS)
    seed_name = "groups"

    def create(self, name: str) -> None:
        create_group(self.world, GROUPS, name)
        create_pod(self.world, GROUPS, name)

    async def use(self, operations: int) -> None:
        for _ in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            await self.replace(self._rng.choice(_NAMES))

    async def replace(self, name: str) -> None:
        places = [(PLURAL, GROUPS), ("pods", GROUPS)]
        self._rng.shuffle(places)
        await self.delete_all(name, places)
        self.create(name)
