"""Situations in clusters that concern only the protection of claims."""

import asyncio
from typing import Any, Final

from tests.controllers.storage.claimprotection.workload import (
    claim_json,
    pod_json,
)
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

JSON = dict[str, Any]


def _create(environment: Environment, plural: str, obj: JSON) -> None:
    kind = environment.world.kind(plural)
    environment.world.server.objects.create(kind, NAMESPACE, obj)


def _delete(environment: Environment, plural: str) -> None:
    found = environment.world.find(plural, NAMESPACE, "photos")
    assert found is not None
    environment.world.delete(plural, found)


def _has_claim(environment: Environment) -> bool:
    found = environment.world.find("persistentvolumeclaims", NAMESPACE, "photos")
    return found is not None


def _has_node(environment: Environment) -> bool:
    found = environment.world.find("pods", NAMESPACE, "photos")
    return found is not None and bool(found["spec"].get("nodeName"))


async def claim_of_an_unseen_pod(environment: Environment) -> None:
    """No issue: the cache of pods lags while a pod is bound and its claim deleted.

    As upstream: the pods are read from the API server before the claim is released.
    """
    await asyncio.sleep(10)
    environment.manager.connection.lagging["pods"] = environment.now + 120
    _create(environment, "persistentvolumeclaims", claim_json("photos"))
    _create(environment, "pods", pod_json("photos"))
    await environment.until(lambda: _has_node(environment), within=60)
    _delete(environment, "persistentvolumeclaims")
    await asyncio.sleep(300)
    assert _has_claim(environment)
    _delete(environment, "pods")
    await environment.until(lambda: not _has_claim(environment), within=60)


SCENARIOS: Final[tuple[Scenario, ...]] = (claim_of_an_unseen_pod,)
