"""The actions of users on the objects of a controller."""

from typing import TYPE_CHECKING, ClassVar, Final

from controller_manager.api.json_objects import JSON

if TYPE_CHECKING:
    from tests.simulation.world import World


READY_AFTER: Final[tuple[JSON, ...]] = ({}, {}, {"minReadySeconds": 3})
"""The options of users. An API server stores no `minReadySeconds` of 0."""


class Workload:
    """Users of one controller's objects; they act the same for every plan of faults."""

    acts_always: ClassVar[bool] = False
    """True if they act in every seed; of others, the seed chooses some."""

    def __init__(self, world: "World") -> None:
        """Take the world; its seed decides what the users do."""
        self.world = world

    def create_objects(self, namespace: str) -> None:
        """Create the objects of the users in a new namespace."""

    async def use(self, operations: int) -> None:
        """Do this many operations, some time apart.

        Raises Stuck if an expected change does not happen.
        """

    async def clean_up(self) -> None:
        """Undo what would keep the state from becoming final."""
