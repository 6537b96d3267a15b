"""What users do with the objects of a controller."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.world import World


class Workload:
    """Users of one controller's objects, the same for every plan of faults."""

    def __init__(self, world: "World") -> None:
        """Take the world; its seed decides what the users do."""
        self.world = world

    def furnish(self, namespace: str) -> None:
        """Create what the users have in a namespace that has just been made."""

    async def use(self, operations: int) -> None:
        """Do so many things, some time apart.

        Raises Stuck if something that must happen does not.
        """

    async def conclude(self) -> None:
        """Take back what would keep the world from coming to an end."""
