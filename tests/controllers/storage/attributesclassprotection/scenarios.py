"""Situations in clusters that concern only the protection of classes of attributes."""

import asyncio
from typing import Any, Final

from tests.controllers.storage.attributesclassprotection.workload import (
    CLAIMS,
    PLURAL,
    VOLUMES,
    claim_json,
    class_json,
    volume_json,
)
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

JSON = dict[str, Any]


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


SCENARIOS: Final[tuple[Scenario, ...]] = (class_of_an_unseen_claim, class_of_a_volume)
