"""Users of objects that a protection controller keeps while they are in use."""

import asyncio
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World

LONGEST_USE: Final = 10.0
"""The most seconds between the deletion of an object and that of its user."""

Place = tuple[str, str]
"""The plural of a resource, and a namespace."""


class ProtectedObjectUsers(Workload):
    """Users who replace objects together with the objects that use them.

    Sometimes they remove the finalizers of a protected object.
    """

    names: ClassVar[tuple[str, ...]]
    """The names of the protected objects."""

    home: ClassVar[str]
    """A namespace of their own, for namespaced objects."""

    protected: ClassVar[Place]
    """The place of the protected objects."""

    seed_name: ClassVar[str]
    """The beginning of the seed of their choices."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"{self.seed_name} {world.seed}")

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            self.world.create_namespace(self.home)
            for name in self.names:
                self.create(name)

    def create(self, name: str) -> None:
        """Create a protected object and its user."""
        raise NotImplementedError

    async def use(self, operations: int) -> None:
        for _ in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            name = self._rng.choice(self.names)
            if self._rng.random() < 0.3:
                self._remove_finalizers(name)
            else:
                await self.replace(name)

    async def replace(self, name: str) -> None:
        """Delete a protected object and its user; create both again."""
        raise NotImplementedError

    async def delete_all(
        self, name: str, places: Sequence[Place], *, backwards: bool = False
    ) -> None:
        """Delete the objects of a name, some time apart; wait until they are gone."""
        for plural, namespace in reversed(places) if backwards else places:
            # A fault may have deleted the object.
            if (found := self.world.find(plural, namespace, name)) is not None:
                self.world.delete(plural, found)
            await asyncio.sleep(self._rng.uniform(0, LONGEST_USE))
        for plural, namespace in places:
            await self.world.until_gone(plural, namespace, name)

    def _remove_finalizers(self, name: str) -> None:
        """Remove the finalizers of a protected object, as a user may do by mistake."""
        plural, namespace = self.protected
        if (found := self.world.find(plural, namespace, name)) is not None:
            self.world.change(
                plural, found, lambda obj: obj["metadata"].pop("finalizers", None)
            )
