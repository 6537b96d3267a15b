"""Situations in clusters that concern only the protection of claims."""

import asyncio
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.storage.claimprotection.workload import (
    claim_json,
    pod_json,
)
from tests.simulation.environment import FAR_AHEAD, Environment, Scenario
from tests.simulation.world import NAMESPACE


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


async def claims_in_another_etcd(environment: Environment) -> None:
    """No issue: the versions of claims are far ahead of those of pods.

    An early version waited for a list of pods that is as new as the deletion of the
    claim: the claim stayed for ever.
    """
    environment.world.separate("persistentvolumeclaims", FAR_AHEAD)
    await asyncio.sleep(10)
    _create(environment, "persistentvolumeclaims", claim_json("photos"))
    await asyncio.sleep(10)
    _delete(environment, "persistentvolumeclaims")
    await environment.until(lambda: not _has_claim(environment), within=10)


async def pods_in_another_etcd(environment: Environment) -> None:
    """No issue: many claims are deleted; then a pod is bound, and its claim deleted.

    The versions of pods are far ahead of those of claims, and the cache of pods lags.
    An early version took the list of pods that it had for the first of the claims: its
    version was higher than that of the last claim, which lost its finalizer.
    """
    world = environment.world
    world.separate("pods", FAR_AHEAD)
    await asyncio.sleep(10)
    names = [f"spare-{number}" for number in range(40)]
    for name in (*names, "photos"):
        _create(environment, "persistentvolumeclaims", claim_json(name))
    await asyncio.sleep(10)
    environment.manager.connection.lagging["pods"] = environment.now + 120

    def left() -> int:
        return len(world.stored("persistentvolumeclaims", NAMESPACE))

    for name in names:
        found = world.find("persistentvolumeclaims", NAMESPACE, name)
        assert found is not None
        world.delete("persistentvolumeclaims", found)
    await environment.until(lambda: left() < len(names) - 5, within=10, every=0.01)
    assert left() > 10
    pod = pod_json("photos")
    pod["spec"]["nodeName"] = "node-0"
    _create(environment, "pods", pod)
    _delete(environment, "persistentvolumeclaims")
    await asyncio.sleep(60)
    assert left() == 1
    assert _has_claim(environment)
    _delete(environment, "pods")
    await environment.until(lambda: not _has_claim(environment), within=120)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    claim_of_an_unseen_pod,
    claims_in_another_etcd,
    pods_in_another_etcd,
)
