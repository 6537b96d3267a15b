"""Situations in clusters that concern only default accounts."""

import asyncio
from functools import partial
from typing import Final

from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

_PLURAL: Final = "serviceaccounts"


async def default_account_is_deleted(environment: Environment) -> None:
    """No issue: it is there again soon; a new namespace has one, too."""
    await asyncio.sleep(10)
    world = environment.world
    world.create_namespace("late")
    await environment.until(partial(_has_account, environment, "late"), within=10)
    found = world.find(_PLURAL, NAMESPACE, "default")
    assert found is not None
    world.delete(_PLURAL, found)
    await environment.until(partial(_has_account, environment, NAMESPACE), within=10)


def _has_account(environment: Environment, namespace: str) -> bool:
    return environment.world.find(_PLURAL, namespace, "default") is not None


SCENARIOS: Final[tuple[Scenario, ...]] = (default_account_is_deleted,)
