"""Situations in clusters that concern only the protection of groups."""

import asyncio
from typing import Final

from tests.controllers.scheduling.podgroupprotection.workload import (
    PLURAL,
    create_group,
    create_pod,
)
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE


async def pod_of_a_group_that_the_cache_does_not_show(
    environment: Environment,
) -> None:
    """No issue: the cache of pods lags when a pod is created and its group deleted.

    Upstream trusts the cache, and the group goes.
    """
    world = environment.world
    create_group(world, NAMESPACE, "late")
    await asyncio.sleep(10)
    environment.manager.connection.lagging["pods"] = environment.now + 120
    create_pod(world, NAMESPACE, "late")
    await asyncio.sleep(2)
    group = world.find(PLURAL, NAMESPACE, "late")
    assert group is not None
    world.delete(PLURAL, group)
    await asyncio.sleep(300)
    assert world.find(PLURAL, NAMESPACE, "late") is not None
    pod = world.find("pods", NAMESPACE, "late")
    assert pod is not None
    world.delete("pods", pod)
    await environment.until(
        lambda: world.find(PLURAL, NAMESPACE, "late") is None, within=60
    )


async def pod_that_leaves_a_deleted_group(environment: Environment) -> None:
    """No issue: the only pod of a deleted group is deleted, without another event."""
    world = environment.world
    create_group(world, NAMESPACE, "left")
    create_pod(world, NAMESPACE, "left")
    await asyncio.sleep(10)
    for plural in (PLURAL, "pods"):
        found = world.find(plural, NAMESPACE, "left")
        assert found is not None
        world.delete(plural, found)
        await asyncio.sleep(10)
    await environment.until(
        lambda: world.find(PLURAL, NAMESPACE, "left") is None, within=60
    )


SCENARIOS: Final[tuple[Scenario, ...]] = (
    pod_of_a_group_that_the_cache_does_not_show,
    pod_that_leaves_a_deleted_group,
)
