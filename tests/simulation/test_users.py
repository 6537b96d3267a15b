"""The users of all controllers act in one cluster and do not disturb one another."""

import pytest

from controller_manager.api.json_objects import JSON
from tests.controllers.builders import deployment_json
from tests.simulation import runner
from tests.simulation.faults import Faults
from tests.simulation.finding import find_properties
from tests.simulation.runner import play, run
from tests.simulation.world import NAMESPACE, World


async def _create_all_objects() -> list[str]:
    """Let the users of each controller create their objects; return what clashes."""
    users = frozenset(each.controller for each in find_properties())
    world = World(1, Faults(1, frozenset()), users=users)
    clashes = []
    drivers: set[str] = set()
    for each in world.workloads:
        who = type(each).__module__
        before = _drivers_by_slice(world)
        try:
            each.create_objects(NAMESPACE)
        except Exception as error:  # noqa: BLE001 - each clash is listed
            clashes.append(f"{who}: {error}")
        after = _drivers_by_slice(world)
        own = {driver for name, driver in after.items() if name not in before}
        clashes += [f"{who}: devices of {driver}" for driver in drivers & own]
        drivers |= own
    await world.stop()
    return clashes


def _drivers_by_slice(world: World) -> dict[str, str]:
    return {
        each["metadata"]["name"]: each["spec"]["driver"]
        for each in world.stored("resourceslices")
    }


def test_users_of_all_controllers_create_objects_of_their_own() -> None:
    """A seed may choose any of them together: they share no name and no driver."""
    assert run(_create_all_objects()) == []


@pytest.mark.slow
def test_users_of_all_controllers_break_no_promise_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without faults; a device of the same name would be tainted for both."""
    monkeypatch.setattr(runner, "OPERATIONS", 6)
    users = frozenset(each.controller for each in find_properties())
    assert play(1, frozenset(), users=users).violations == ()


async def _stored_after_edits() -> tuple[JSON, JSON]:
    world = World(1, Faults(1, frozenset()), users=frozenset())
    body = deployment_json("web", 1)
    world.server.objects.create(world.kind("deployments"), NAMESPACE, body)
    before = world.stored("deployments")[0]
    unchanged = {"paused": False, "minReadySeconds": 0}
    world.change("deployments", before, lambda obj: obj["spec"].update(unchanged))
    world.change(
        "deployments",
        world.stored("deployments")[0],
        lambda obj: obj["metadata"].update(annotations={}),
    )
    await world.stop()
    return before, world.stored("deployments")[0]


def test_users_leave_no_value_behind_that_an_api_server_drops() -> None:
    """The next write would drop it, so the end would differ (seeds 7065 and 7086)."""
    before, after = run(_stored_after_edits())
    assert after == before
