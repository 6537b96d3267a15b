"""Situations in clusters that concern only the published root authority."""

import asyncio
from functools import partial
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.clusters import ROOT_CA
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

_PLURAL: Final = "configmaps"
_NAME: Final = "kube-root-ca.crt"


async def root_authority_is_spoiled(environment: Environment) -> None:
    """No issue: a user edits the config map, deletes it, and makes a namespace."""
    await asyncio.sleep(10)
    world = environment.world
    for data in ({"ca.crt": "of a stranger"}, {"ca.crt": ROOT_CA, "more": "x"}):
        world.change(_PLURAL, _found(environment), lambda obj: obj.update(data=data))  # noqa: B023
        await environment.until(partial(_is_right, environment, NAMESPACE), within=10)
    world.delete(_PLURAL, _found(environment))
    await environment.until(partial(_is_right, environment, NAMESPACE), within=10)
    world.create_namespace("late")
    await environment.until(partial(_is_right, environment, "late"), within=10)


def _found(environment: Environment) -> JSON:
    found = environment.world.find(_PLURAL, NAMESPACE, _NAME)
    assert found is not None
    return found


def _is_right(environment: Environment, namespace: str) -> bool:
    found = environment.world.find(_PLURAL, namespace, _NAME)
    return found is not None and found["data"] == {"ca.crt": ROOT_CA}


SCENARIOS: Final[tuple[Scenario, ...]] = (root_authority_is_spoiled,)
