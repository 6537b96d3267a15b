"""Nodes that are created and deleted, and caches that do not show them."""

import asyncio
from typing import Final

from tests.simulation.environment import Environment, Scenario
from tests.simulation.network import OldReplica

_ALL: Final = [f"10.244.{part}.0/24" for part in range(8)]


async def ranges_that_an_old_cache_lacks(environment: Environment) -> None:
    """No issue: a manager starts on a server whose watch cache is old.

    Another manager has given ranges away since. This manager reads the nodes before it
    writes.
    """
    await asyncio.sleep(10)
    old = environment.world.server.storage.version
    for name, part in (("given-3", 3), ("given-4", 4)):
        _create(environment, name, f"10.244.{part}.0/24")
    environment.manager.connection.old = OldReplica(old, environment.now + 120)
    environment.manager.crash()
    await asyncio.sleep(20)
    _create(environment, "new")
    environment.manager.connection.cut()
    await environment.until(lambda: bool(_ranges(environment, "new")), within=180)
    assert _ranges(environment, "new") == ["10.244.5.0/24"]


async def cluster_is_full_until_a_node_goes(environment: Environment) -> None:
    """No issue: the waiting node gets the range at once, although it waited long."""
    await asyncio.sleep(10)
    for number in range(5):
        _create(environment, f"n-{number}")
        await asyncio.sleep(1)
    assert sorted(_every_range(environment)) == _ALL
    _create(environment, "late")
    await asyncio.sleep(3000)
    assert _ranges(environment, "late") == []
    (freed,) = _ranges(environment, "n-2")
    _delete(environment, "n-2")
    await environment.until(lambda: bool(_ranges(environment, "late")), within=10)
    assert _ranges(environment, "late") == [freed]


async def freed_range_rests(environment: Environment) -> None:
    """No issue, recorded: ranges that were never used come before a freed one."""
    await asyncio.sleep(10)
    _create(environment, "gone")
    await asyncio.sleep(1)
    _delete(environment, "gone")
    await asyncio.sleep(1)
    _create(environment, "next")
    await asyncio.sleep(1)
    assert _ranges(environment, "next") == ["10.244.4.0/24"]


def _create(environment: Environment, name: str, *ranges: str) -> None:
    world = environment.world
    spec = {"podCIDRs": list(ranges)} if ranges else {}
    node = {"metadata": {"name": name}, "spec": spec}
    world.server.objects.create(world.kind("nodes"), "", node)


def _delete(environment: Environment, name: str) -> None:
    found = environment.world.find("nodes", "", name)
    assert found is not None
    environment.world.delete("nodes", found)


def _ranges(environment: Environment, name: str) -> list[str]:
    found = environment.world.find("nodes", "", name)
    assert found is not None
    ranges: list[str] = found["spec"].get("podCIDRs") or []
    return ranges


def _every_range(environment: Environment) -> list[str]:
    names = [each["metadata"]["name"] for each in environment.world.stored("nodes")]
    return [each for name in names for each in _ranges(environment, name)]


SCENARIOS: Final[tuple[Scenario, ...]] = (
    ranges_that_an_old_cache_lacks,
    cluster_is_full_until_a_node_goes,
    freed_range_rests,
)
