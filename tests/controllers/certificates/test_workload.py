"""The users of the simulation who ask for certificates."""

import pytest

from tests.controllers.certificates.workload import Requesters
from tests.simulation.faults import Faults
from tests.simulation.world import World


@pytest.mark.looptime
async def test_controllers_with_the_same_users_have_them_once() -> None:
    """Otherwise each of them would create the same objects."""
    users = frozenset(
        (
            "certificatesigningrequest-approving-controller",
            "certificatesigningrequest-signing-controller",
        )
    )
    world = World(1, Faults(1), users=users)
    assert [type(each) for each in world.workloads] == [Requesters]
