"""Situations in clusters that concern only ephemeral volumes."""

import asyncio
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.storage.ephemeralvolume.workload import pod_json
from tests.simulation.environment import Environment, Scenario
from tests.simulation.objects import controller_of
from tests.simulation.world import NAMESPACE

_CLAIMS: Final = "persistentvolumeclaims"


def _create(environment: Environment, plural: str, obj: JSON) -> JSON:
    kind = environment.world.kind(plural)
    return environment.world.server.objects.create(kind, NAMESPACE, obj).obj


def _owner(environment: Environment) -> str | None:
    """Return the uid of the pod that controls the claim, `None` without a claim."""
    found = environment.world.find(_CLAIMS, NAMESPACE, "job-scratch")
    return None if found is None else controller_of(found) or ""


def _lose(environment: Environment) -> None:
    """Delete the claim, and remove its finalizers."""
    world = environment.world
    if (claim := world.find(_CLAIMS, NAMESPACE, "job-scratch")) is not None:
        world.delete(_CLAIMS, claim)
    if (claim := world.find(_CLAIMS, NAMESPACE, "job-scratch")) is not None:
        world.change(_CLAIMS, claim, lambda obj: obj["metadata"].pop("finalizers", 0))


async def claim_that_a_user_deletes(environment: Environment) -> None:
    """No issue: the claim of an ephemeral volume is deleted, and its pod stays."""
    pod = _create(environment, "pods", pod_json("job", "scratch"))
    uid = pod["metadata"]["uid"]
    await environment.until(lambda: _owner(environment) == uid, within=60)
    _lose(environment)
    await asyncio.sleep(1)
    await environment.until(lambda: _owner(environment) == uid, within=60)


async def claim_of_a_user_has_the_name(environment: Environment) -> None:
    """No issue: a claim that a user made has the name of the one that is needed.

    It is not touched, an event says so, and the pod gets its own as soon as it goes.
    """
    spec = pod_json("job", "scratch")["spec"]["volumes"][0]["ephemeral"]
    claim = {**spec["volumeClaimTemplate"], "metadata": {"name": "job-scratch"}}
    _create(environment, _CLAIMS, claim)
    pod = _create(environment, "pods", pod_json("job", "scratch"))
    await asyncio.sleep(60)
    assert _owner(environment) == ""
    assert _has_event(environment)
    _lose(environment)
    uid = pod["metadata"]["uid"]
    await environment.until(lambda: _owner(environment) == uid, within=60)


def _has_event(environment: Environment) -> bool:
    events = environment.world.stored("events", NAMESPACE)
    return any(each["reason"] == "FailedBinding" for each in events)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    claim_that_a_user_deletes,
    claim_of_a_user_has_the_name,
)
