"""Situations in clusters that concern only legacy tokens."""

import asyncio
from typing import Final

from controller_manager.controllers.identity.legacytokencleaner.controller import (
    INVALID_SINCE,
    LAST_USED,
)
from tests.controllers.identity.legacytokencleaner.workload import (
    PERIOD,
    create_token,
    mount,
    today,
    track,
)
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

_OLD: Final = "2025-12-01"
_NAMES: Final = ("idle", "marked", "used", "mounted", "mine")


async def legacy_tokens_without_use(environment: Environment) -> None:
    """No issue: of five tokens one is marked, and one was marked long ago and goes.

    Each round looks at all of them. A manager that starts begins with a round.
    """
    track(environment.world)
    _create_tokens(environment)
    await asyncio.sleep(PERIOD / 2)
    environment.manager.crash()
    await asyncio.sleep(PERIOD / 4)
    assert _marks(environment) == {**dict.fromkeys(_NAMES, ""), "marked": _OLD}
    await asyncio.sleep(PERIOD)
    environment.manager.crash()
    await asyncio.sleep(PERIOD / 4)
    expected = dict.fromkeys(("mine", "mounted", "used"), "")
    assert _marks(environment) == {**expected, "idle": today(environment.world)}


async def use_of_legacy_tokens_is_tracked_since_today(environment: Environment) -> None:
    """No issue: the use of tokens before that day is unknown."""
    track(environment.world, today(environment.world))
    _create_tokens(environment)
    await asyncio.sleep(PERIOD * 2)
    environment.manager.crash()
    await asyncio.sleep(PERIOD / 4)
    assert _marks(environment) == {**dict.fromkeys(_NAMES, ""), "marked": _OLD}


def _create_tokens(environment: Environment) -> None:
    world = environment.world
    create_token(world, "idle")
    create_token(world, "marked", {INVALID_SINCE: _OLD})
    create_token(world, "used", {LAST_USED: today(world)})
    create_token(world, "mounted")
    mount(world, "mounted")
    create_token(world, "mine", listed=False)


def _marks(environment: Environment) -> dict[str, str]:
    """Return the day since which each of the tokens is invalid, empty without one."""
    return {
        each["metadata"]["name"]: each["metadata"]
        .get("labels", {})
        .get(INVALID_SINCE, "")
        for each in environment.world.stored("secrets", NAMESPACE)
        if each["metadata"]["name"] in _NAMES
    }


SCENARIOS: Final[tuple[Scenario, ...]] = (
    legacy_tokens_without_use,
    use_of_legacy_tokens_is_tracked_since_today,
)
