"""Situations in clusters that concern only the bundle of the API server."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final
from unittest import mock

from controller_manager.api.certificates.v1beta1 import KUBE_APISERVER_SERVING
from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.certificates import TRUST_BUNDLES
from controller_manager.devcluster.scheme.statuses import Cause, invalid
from tests.clusters import ROOT_CA
from tests.controllers.certificates.clustertrustbundlepublisher.workload import (
    CURRENT,
    FORMER,
    OTHER,
    PLURAL,
    create_bundle,
    edit_bundle,
)
from tests.simulation.environment import Environment, Scenario

_WANTED: Final = {CURRENT: ROOT_CA, OTHER: ROOT_CA}


async def trust_bundle_is_spoiled(environment: Environment) -> None:
    """No issue: a user edits the bundle, and deletes it; both are undone."""
    await asyncio.sleep(10)
    world = environment.world
    create_bundle(world, OTHER)
    edit_bundle(world, _current(environment))
    await environment.until(partial(_is_right, environment), within=30)
    world.delete(PLURAL, _current(environment))
    await environment.until(partial(_is_right, environment), within=30)


async def authority_of_the_server_changes(environment: Environment) -> None:
    """No issue: a manager starts with another authority than the one before it.

    The API server refuses the new bundle for a minute. The former one goes once the new
    one is there; until then workloads have no other one.
    """
    await asyncio.sleep(10)
    world = environment.world
    environment.manager.crash()
    world.delete(PLURAL, _current(environment))
    create_bundle(world, FORMER, KUBE_APISERVER_SERVING)
    create_bundle(world, OTHER)
    with mock.patch.object(TRUST_BUNDLES.strategy, "validate", _refuse):
        await asyncio.sleep(60)
    assert [each["metadata"]["name"] for each in world.stored(PLURAL)] == [
        OTHER,
        FORMER,
    ]
    await environment.until(partial(_is_right, environment), within=120)


def _refuse(obj: JSON) -> Sequence[Cause]:
    return [invalid("spec", obj["metadata"]["name"], "a webhook refuses this")]


def _current(environment: Environment) -> JSON:
    found = environment.world.find(PLURAL, "", CURRENT)
    assert found is not None
    return found


def _is_right(environment: Environment) -> bool:
    stored = environment.world.stored(PLURAL)
    return {
        each["metadata"]["name"]: each["spec"]["trustBundle"] for each in stored
    } == _WANTED


SCENARIOS: Final[tuple[Scenario, ...]] = (
    trust_bundle_is_spoiled,
    authority_of_the_server_changes,
)
