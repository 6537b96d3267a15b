"""The final state is checked once all had the time to reach it."""

import pytest

from tests.simulation import runner
from tests.simulation.faults import Faults
from tests.simulation.finding import find_properties
from tests.simulation.users import users_in_every_seed
from tests.simulation.world import World


async def _end_with(violation: str) -> list[str]:
    """Return all violations of a run without faults, with a violation of a write."""
    users = users_in_every_seed(find_properties())
    world = World(1, Faults(1, frozenset()), 1, users=users)
    async with runner.simulated(world) as checks:
        if violation:
            checks.violate(violation)
        await runner.use_and_disturb(world, checks)
    return checks.violations


async def _go_silent(world: World) -> None:
    """Let the manager's watches not bring the last change for a while."""
    world.managers[0].connection.fall_silent()
    world.create_namespace("late")


@pytest.mark.parametrize(
    ("violation", "reported"),
    [("", []), ("a wrong write", ["     0.000 s  a wrong write"])],
    ids=["none", "a wrong write"],
)
@pytest.mark.slow
def test_only_a_final_state_that_was_waited_for_is_checked(
    monkeypatch: pytest.MonkeyPatch, violation: str, reported: list[str]
) -> None:
    """After a wrong write nothing waits: a cache may lag just then."""
    monkeypatch.setattr(runner, "OPERATIONS", 1)
    monkeypatch.setattr(World, "clean_up", _go_silent)
    assert runner.run(_end_with(violation)) == reported
