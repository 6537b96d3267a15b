"""The users of all controllers act in one cluster and do not disturb one another."""

from tests.simulation.faults import Faults
from tests.simulation.finding import find_properties
from tests.simulation.runner import run
from tests.simulation.world import NAMESPACE, World


async def _create_all_objects() -> list[str]:
    """Let the users of each controller create their objects in one world."""
    users = frozenset(each.controller for each in find_properties())
    world = World(1, Faults(1, frozenset()), users=users)
    refused = []
    for each in world.workloads:
        try:
            each.create_objects(NAMESPACE)
        except Exception as error:  # noqa: BLE001 - each clash is listed
            refused.append(f"{type(each).__module__}: {error}")
    await world.stop()
    return refused


def test_users_of_all_controllers_create_objects_with_names_of_their_own() -> None:
    """A seed may choose any of them together."""
    assert run(_create_all_objects()) == []
