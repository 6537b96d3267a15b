"""Situations in clusters that concern only the expansion of volumes."""

import asyncio
from typing import Final

from controller_manager.api.core.volumes import PRE_RESIZE_CAPACITY
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.storage.volumeexpander.controller import RESIZER
from tests.controllers.storage.volumeexpander.workload import (
    CLAIMS,
    CLASSES,
    VOLUMES,
    ask_for,
    claim_json,
    class_json,
    finish,
    volume_json,
)
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE


async def _grown(environment: Environment, source: str) -> None:
    """Create a claim that is bound, and have it request more."""
    world = environment.world
    objects = world.server.objects
    objects.create(world.kind(CLASSES), "", class_json())
    volume = volume_json("disk", source, NAMESPACE)
    objects.create(world.kind(VOLUMES), "", volume)
    objects.create(world.kind(CLAIMS), NAMESPACE, claim_json("disk"))
    await asyncio.sleep(30)
    ask_for(world, NAMESPACE, "disk", "2Gi")
    await asyncio.sleep(10)


def _claim(environment: Environment) -> JSON:
    found = environment.world.find(CLAIMS, NAMESPACE, "disk")
    assert found is not None
    return found


def _volume(environment: Environment) -> tuple[str, str | None]:
    """Return the capacity of the volume, and the one that it keeps in mind."""
    found = environment.world.find(VOLUMES, "", "disk")
    assert found is not None
    annotations: dict[str, str] = found["metadata"].get("annotations", {})
    capacity: str = found["spec"]["capacity"]["storage"]
    return capacity, annotations.get(PRE_RESIZE_CAPACITY)


async def volume_that_a_kubelet_expands(environment: Environment) -> None:
    """No issue: a claim to a flex volume grows, and a kubelet expands the volume."""
    await _grown(environment, "flex")
    status = _claim(environment)["status"]
    assert status.get("allocatedResourceStatuses") == {"storage": "NodeResizePending"}
    assert status.get("allocatedResources") == {"storage": "2Gi"}
    assert _volume(environment) == ("2Gi", "1Gi")
    finish(environment.world, NAMESPACE, "disk")
    await asyncio.sleep(10)
    assert _volume(environment) == ("2Gi", None)


async def volume_of_a_migrated_plugin(environment: Environment) -> None:
    """No issue: a claim to a volume of a migrated plugin grows."""
    await _grown(environment, "ebs")
    annotations = _claim(environment)["metadata"]["annotations"]
    assert annotations.get(RESIZER) == "ebs.csi.aws.com"
    assert _volume(environment) == ("1Gi", None)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    volume_that_a_kubelet_expands,
    volume_of_a_migrated_plugin,
)
