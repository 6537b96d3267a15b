"""Situations in clusters that concern only the protection of classes of attributes."""

import asyncio
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.storage.attributesclassprotection.workload import (
    CLAIMS,
    PLURAL,
    VOLUMES,
    claim_json,
    class_json,
    volume_json,
)
from tests.simulation.environment import FAR_AHEAD, Environment, Scenario
from tests.simulation.world import NAMESPACE


def _create(environment: Environment, plural: str, obj: JSON) -> None:
    world = environment.world
    kind = world.kind(plural)
    world.server.objects.create(kind, NAMESPACE if kind.namespaced else "", obj)


def _delete(environment: Environment, plural: str, namespace: str, name: str) -> None:
    found = environment.world.find(plural, namespace, name)
    assert found is not None
    environment.world.delete(plural, found)


def _exists(environment: Environment) -> bool:
    return environment.world.find(PLURAL, "", "bronze") is not None


async def class_of_an_unseen_claim(environment: Environment) -> None:
    """No issue: the cache of claims lags when a claim is made and its class deleted.

    Upstream trusts the cache, and the class goes.
    """
    _create(environment, PLURAL, class_json("bronze"))
    await asyncio.sleep(10)
    environment.manager.connection.lagging[CLAIMS] = environment.now + 120
    _create(environment, CLAIMS, claim_json("late", "bronze"))
    await asyncio.sleep(2)
    _delete(environment, PLURAL, "", "bronze")
    await asyncio.sleep(300)
    assert _exists(environment)
    _delete(environment, CLAIMS, NAMESPACE, "late")
    await environment.until(lambda: not _exists(environment), within=60)


async def class_of_a_volume(environment: Environment) -> None:
    """No issue: a class is deleted, and then the only volume that has it."""
    _create(environment, PLURAL, class_json("bronze"))
    _create(environment, VOLUMES, volume_json("late", "bronze"))
    await asyncio.sleep(10)
    _delete(environment, PLURAL, "", "bronze")
    await asyncio.sleep(60)
    assert _exists(environment)
    _delete(environment, VOLUMES, "", "late")
    await environment.until(lambda: not _exists(environment), within=60)


async def claims_and_volumes_in_other_etcds(environment: Environment) -> None:
    """No issue: many classes are deleted; then a claim is made, and its class deleted.

    The versions of claims and volumes are far ahead of those of classes, and the cache
    of claims lags. An early version took the lists that it had for the first of the
    classes: their versions were higher than that of the last class, which went.
    """
    world = environment.world
    world.separate(CLAIMS, FAR_AHEAD)
    world.separate(VOLUMES, 2 * FAR_AHEAD)
    await asyncio.sleep(10)
    names = [f"tin-{number}" for number in range(40)]
    for name in (*names, "bronze"):
        _create(environment, PLURAL, class_json(name))
    await asyncio.sleep(10)
    environment.manager.connection.lagging[CLAIMS] = environment.now + 120
    before = len(world.stored(PLURAL))
    for name in names:
        _delete(environment, PLURAL, "", name)
    await environment.until(
        lambda: len(world.stored(PLURAL)) < before - 5, within=10, every=0.01
    )
    assert len(world.stored(PLURAL)) > before - len(names)
    _create(environment, CLAIMS, claim_json("late", "bronze"))
    _delete(environment, PLURAL, "", "bronze")
    await asyncio.sleep(60)
    assert len(world.stored(PLURAL)) == before - len(names)
    assert _exists(environment)
    _delete(environment, CLAIMS, NAMESPACE, "late")
    await environment.until(lambda: not _exists(environment), within=120)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    class_of_an_unseen_claim,
    class_of_a_volume,
    claims_and_volumes_in_other_etcds,
)
