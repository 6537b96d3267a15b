"""Situations in clusters that concern only the deletion of requests."""

import asyncio
from typing import Final

from controller_manager.devcluster.apiserver.security import User
from tests.controllers.certificates.authorities import condition
from tests.controllers.certificates.workload import PLURAL, request_named
from tests.simulation.environment import Environment, Scenario


async def requests_grow_old(environment: Environment) -> None:
    """No issue: a denied request stays for an hour, another one for a day."""
    world = environment.world
    kind = world.kind(PLURAL)
    for name in ("jane", "server"):
        world.server.objects.create(kind, "", request_named(name), user=User("jane"))
    await asyncio.sleep(1800)
    denied = world.find(PLURAL, "", "jane")
    assert denied is not None
    world.change(
        PLURAL,
        denied,
        lambda changed: changed["status"].update(conditions=[condition("Denied")]),
        "approval",
    )
    await asyncio.sleep(3540)
    assert world.find(PLURAL, "", "jane")
    await environment.until(lambda: world.find(PLURAL, "", "jane") is None, within=120)
    assert world.find(PLURAL, "", "server")


SCENARIOS: Final[tuple[Scenario, ...]] = (requests_grow_old,)
