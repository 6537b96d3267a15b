"""Situations in clusters that concern only the ranges of services."""

import asyncio
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.network.servicecidr.builders import address_json, ranges_json
from tests.simulation.environment import Environment, Scenario


def _create(environment: Environment, plural: str, obj: JSON) -> None:
    world = environment.world
    world.server.objects.create(world.kind(plural), "", obj)


def _delete(environment: Environment, plural: str, name: str) -> None:
    found = environment.world.find(plural, "", name)
    assert found is not None
    environment.world.delete(plural, found)


def _has(environment: Environment, name: str) -> bool:
    return environment.world.find("servicecidrs", "", name) is not None


async def address_that_the_cache_lacks(environment: Environment) -> None:
    """No issue: the cache lags by more than ten seconds while a range is deleted.

    Upstream trusts its cache, and releases the range although an address was allocated
    from it. Here the addresses are read from the API server first.
    """
    _create(environment, "servicecidrs", ranges_json("sim-old", "172.29.1.0/24"))
    await asyncio.sleep(10)
    environment.manager.connection.lagging["ipaddresses"] = environment.now + 60
    _create(environment, "ipaddresses", address_json("172.29.1.7"))
    _delete(environment, "servicecidrs", "sim-old")
    await asyncio.sleep(120)
    assert _has(environment, "sim-old")
    _delete(environment, "ipaddresses", "172.29.1.7")
    await environment.until(lambda: not _has(environment, "sim-old"), within=60)


async def twin_ranges_deleted_together(environment: Environment) -> None:
    """No issue: two equal ranges are deleted at the same time, with an address in use.

    Upstream releases both, each because of the other.
    """
    await asyncio.sleep(10)
    for name in ("sim-a", "sim-b"):
        _create(environment, "servicecidrs", ranges_json(name, "172.29.1.0/24"))
    _create(environment, "ipaddresses", address_json("172.29.1.7"))
    await asyncio.sleep(10)
    for name in ("sim-a", "sim-b"):
        _delete(environment, "servicecidrs", name)
    await asyncio.sleep(9)
    assert _has(environment, "sim-a")
    await asyncio.sleep(60)
    assert not _has(environment, "sim-a")
    assert _has(environment, "sim-b")
    _delete(environment, "ipaddresses", "172.29.1.7")
    await environment.until(lambda: not _has(environment, "sim-b"), within=60)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    address_that_the_cache_lacks,
    twin_ranges_deleted_together,
)
"""Tests of the controller of the same name."""
