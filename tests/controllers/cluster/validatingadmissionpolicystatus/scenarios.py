"""Situations in clusters that concern only the status of policies."""

import asyncio
from typing import Final

from tests.controllers.cluster.validatingadmissionpolicystatus.builders import (
    policy_json,
)
from tests.simulation.environment import Environment, Scenario

_PLURAL: Final = "validatingadmissionpolicies"


def _create(environment: Environment, expression: str) -> None:
    world = environment.world
    policy = policy_json("small", expression)
    world.server.objects.create(world.kind(_PLURAL), "", policy)


def _status(environment: Environment) -> tuple[int, list[str]]:
    """Return the generation that was checked, and the fields with warnings."""
    found = environment.world.find(_PLURAL, "", "small")
    assert found is not None
    status = found["status"]
    warnings = status.get("typeChecking", {}).get("expressionWarnings", [])
    fields = [each["fieldRef"] for each in warnings]
    return status.get("observedGeneration", 0), fields


async def policy_mended(environment: Environment) -> None:
    """No issue: a policy is wrong, is mended, and is replaced by a wrong namesake.

    As upstream: each generation has its warnings, and no warning outlives it.
    """
    await asyncio.sleep(10)
    _create(environment, "object.spec.containers.size() > 0")
    await asyncio.sleep(10)
    field = "spec.validations[0].expression"
    assert _status(environment) == (1, [field])
    found = environment.world.find(_PLURAL, "", "small")
    assert found is not None
    right = [{"expression": "object.spec.template.spec.containers.size() > 0"}]
    environment.world.change(
        _PLURAL, found, lambda obj: obj["spec"].update(validations=right)
    )
    await asyncio.sleep(10)
    assert _status(environment) == (2, [])
    environment.world.delete(_PLURAL, found)
    _create(environment, "object.metadata.label == {}")
    await asyncio.sleep(10)
    assert _status(environment) == (1, [field])


SCENARIOS: Final[tuple[Scenario, ...]] = (policy_mended,)
"""Tests of the controller of the same name."""
