"""Situations in clusters that concern only the status of pools."""

import asyncio
from typing import Final

from tests.controllers.resource.resourcepoolstatusrequest.workload import (
    PLURAL,
    POOLS,
    ask,
    publish,
)
from tests.simulation.environment import Environment, Scenario


def _is_answered(environment: Environment, name: str) -> bool:
    found = environment.world.find(PLURAL, "", name)
    return found is not None and "status" in found


async def pool_that_is_complete_late(environment: Environment) -> None:
    """No issue: a driver takes ten minutes to publish the slices of its pools.

    Upstream drops the request after five retries, and responds after a restart.
    """
    world = environment.world
    for pool in POOLS:
        publish(world, pool, 0, 7)
    await asyncio.sleep(5)
    ask(world, "early")
    await asyncio.sleep(600)
    assert not _is_answered(environment, "early")
    for pool in POOLS:
        publish(world, pool, 1, 7)
    await environment.until(lambda: _is_answered(environment, "early"), within=30)


SCENARIOS: Final[tuple[Scenario, ...]] = (pool_that_is_complete_late,)
