"""Situations in clusters that concern only requests of pods."""

import asyncio
from functools import partial
from typing import Final

from tests.controllers.certificates.podcertificaterequestcleaner.workload import (
    PLURAL,
    create_request,
)
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

_NAME: Final = "pod"
_AGE: Final = 900
"""Seconds after which a request goes."""


async def request_of_a_pod_grows_old(environment: Environment) -> None:
    """No issue: it goes at its time by the API server's clock, not by the manager's."""
    environment.manager.skew = 60.0
    environment.manager.crash()
    await asyncio.sleep(10)
    create_request(environment.world, _NAME)
    await asyncio.sleep(_AGE - 10)
    assert _stands(environment)
    await environment.until(partial(_is_gone, environment), within=15)


async def request_of_a_pod_is_replaced(environment: Environment) -> None:
    """No issue: the time of a request has come, and a namesake is there already.

    The cache does not show it yet; it stays for its own time.
    """
    await asyncio.sleep(10)
    create_request(environment.world, _NAME)
    await asyncio.sleep(_AGE - 20)
    environment.manager.connection.lagging[PLURAL] = environment.now + 60
    found = environment.world.find(PLURAL, NAMESPACE, _NAME)
    assert found is not None
    environment.world.delete(PLURAL, found)
    create_request(environment.world, _NAME)
    await asyncio.sleep(_AGE - 10)
    assert _stands(environment)
    await environment.until(partial(_is_gone, environment), within=20)


def _stands(environment: Environment) -> bool:
    return environment.world.find(PLURAL, NAMESPACE, _NAME) is not None


def _is_gone(environment: Environment) -> bool:
    return not _stands(environment)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    request_of_a_pod_grows_old,
    request_of_a_pod_is_replaced,
)
