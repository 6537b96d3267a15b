"""Situations in clusters that concern only the migrator."""

import asyncio
from typing import Final

from tests.controllers.cluster.storageversionmigrator.workload import PLURAL, ask
from tests.simulation.environment import Environment, Scenario


def _true(environment: Environment, name: str) -> set[str]:
    found = environment.world.find(PLURAL, "", name)
    assert found is not None
    conditions = found["status"].get("conditions", ())
    return {each["type"] for each in conditions if each["status"] == "True"}


async def migration_that_the_cache_does_not_show(environment: Environment) -> None:
    """No issue: the cache of migrations lags while one begins after the other.

    Upstream takes the one that runs from its cache, and may run both.
    """
    ask(environment.world, "first", "configmaps")
    ask(environment.world, "second", "configmaps")
    ask(environment.world, "third", "configmaps")
    environment.manager.connection.lagging[PLURAL] = environment.now + 60
    for _ in range(200):
        await asyncio.sleep(1)
        names = ("first", "second", "third")
        running = [each for each in names if "Running" in _true(environment, each)]
        assert len(running) <= 1, running
    for each in names:
        assert _true(environment, each) == {"Succeeded"}


async def migration_that_waits_for_another(environment: Environment) -> None:
    """No issue: nothing else happens when the one before it has ended."""
    await asyncio.sleep(10)
    ask(environment.world, "first", "configmaps")
    ask(environment.world, "second", "configmaps")
    await environment.until(
        lambda: _true(environment, "second") == {"Succeeded"}, within=60
    )


SCENARIOS: Final[tuple[Scenario, ...]] = (
    migration_that_the_cache_does_not_show,
    migration_that_waits_for_another,
)
