"""Situations in clusters that concern only the protection of volumes."""

import asyncio
from typing import Final

from controller_manager.controllers.storage.volumeprotection.controller import FINALIZER
from tests.controllers.storage.volumeprotection.workload import claim_json, volume_json
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

_VOLUMES: Final = "persistentvolumes"
_CLAIMS: Final = "persistentvolumeclaims"


async def deleted_volume_that_is_released(environment: Environment) -> None:
    """No issue: a volume is deleted while it is bound, and its claim much later."""
    world = environment.world
    objects = world.server.objects
    objects.create(world.kind(_VOLUMES), "", volume_json("disk"))
    objects.create(world.kind(_CLAIMS), NAMESPACE, claim_json("disk"))
    await asyncio.sleep(10)
    for plural, namespace in ((_VOLUMES, ""), (_CLAIMS, NAMESPACE)):
        assert world.find(_VOLUMES, "", "disk") is not None
        found = world.find(plural, namespace, "disk")
        assert found is not None
        world.delete(plural, found)
        await asyncio.sleep(60)
    assert world.find(_VOLUMES, "", "disk") is None


async def volume_that_loses_its_finalizer(environment: Environment) -> None:
    """No issue: a user removes the finalizers of a volume."""
    world = environment.world
    volume = {**volume_json("disk"), "status": {"phase": "Available"}}
    world.server.objects.create(world.kind(_VOLUMES), "", volume)
    await asyncio.sleep(10)
    found = world.find(_VOLUMES, "", "disk")
    assert found is not None
    world.change(_VOLUMES, found, lambda obj: obj["metadata"].pop("finalizers", None))
    await asyncio.sleep(10)
    found = world.find(_VOLUMES, "", "disk")
    assert found is not None
    assert found["metadata"].get("finalizers") == [FINALIZER]


SCENARIOS: Final[tuple[Scenario, ...]] = (
    deleted_volume_that_is_released,
    volume_that_loses_its_finalizer,
)
