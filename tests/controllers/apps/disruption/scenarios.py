"""Situations in clusters that concern only disruption budgets."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.apps.disruption.cases import budget_json
from tests.controllers.apps.disruption.workload import allow_eviction, evict
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE


async def _start(environment: Environment, **limit: Any) -> None:
    """Create a deployment of three pods and its budget; wait until it is counted."""
    environment.create(replicas=3)
    await environment.until(environment.is_complete, within=60)
    body = budget_json(**limit)
    kind = environment.world.kind("poddisruptionbudgets")
    environment.world.server.objects.create(kind, NAMESPACE, body)
    await environment.until(_says(environment, currentHealthy=3), within=30)


def _budget(environment: Environment) -> JSON:
    found = environment.world.find("poddisruptionbudgets", NAMESPACE, "pdb")
    assert found is not None
    return found


def _says(environment: Environment, **numbers: int) -> Callable[[], bool]:
    def says() -> bool:
        status = _budget(environment).get("status", {})
        return all(status.get(name) == number for name, number in numbers.items())

    return says


def _pods(environment: Environment) -> list[JSON]:
    return environment.world.stored("pods", NAMESPACE)


async def evictions_that_no_cache_shows(environment: Environment) -> None:
    """No issue: the cache of pods lags while pods of a budget are evicted.

    As upstream: the API server records each eviction in the status. From then on the
    pod does not count, even if the cache shows it.
    """
    await _start(environment, maxUnavailable=1)
    environment.manager.connection.lagging["pods"] = environment.now + 60
    first, second, _ = (each["metadata"]["name"] for each in _pods(environment))
    assert await evict(environment.world, NAMESPACE, first) == 201
    for _ in range(50):
        await asyncio.sleep(1)
        assert await evict(environment.world, NAMESPACE, second) == 429
    await environment.until(
        _says(environment, currentHealthy=3, disruptionsAllowed=1), within=60
    )


async def evictions_that_a_status_does_not_know(environment: Environment) -> None:
    """No issue: the cache of budgets lags while pods are evicted and others fail.

    As upstream: the status that is written has the version of the budget that it was
    calculated from, so that the API server refuses it.
    """
    # A third of three pods, and a bit: two.
    await _start(environment, maxUnavailable="34%")
    world = environment.world
    lagging = environment.manager.connection.lagging
    lagging["poddisruptionbudgets"] = environment.now + 60
    first, second, _ = _pods(environment)
    assert allow_eviction(world, _budget(environment), first)
    name = first["metadata"]["name"]
    for passed in range(50):
        await asyncio.sleep(1)
        assert name in _budget(environment)["status"].get("disruptedPods", {})
        if passed == 10:
            world.restart_pod(second)
    await environment.until(
        _says(environment, currentHealthy=3, disruptionsAllowed=2), within=150
    )


async def evictions_that_never_come(environment: Environment) -> None:
    """No issue: an API server ends after it has allowed an eviction.

    As upstream: after two minutes the pod counts again.
    """
    await _start(environment, maxUnavailable=1)
    assert allow_eviction(
        environment.world, _budget(environment), _pods(environment)[0]
    )
    await asyncio.sleep(100)
    assert _says(environment, currentHealthy=2, disruptionsAllowed=0)()
    await environment.until(
        _says(environment, currentHealthy=3, disruptionsAllowed=1), within=30
    )
    assert "disruptedPods" not in _budget(environment)["status"]


async def a_container_that_crashes(environment: Environment) -> None:
    """No issue: a pod of a budget is not ready for four seconds; nothing else happens.

    As upstream: no other pod may be evicted meanwhile.
    """
    await _start(environment, maxUnavailable=1)
    first, second, _ = _pods(environment)
    environment.world.restart_pod(first)
    await asyncio.sleep(2)
    name = second["metadata"]["name"]
    assert await evict(environment.world, NAMESPACE, name) == 429
    await environment.until(
        _says(environment, currentHealthy=3, disruptionsAllowed=1), within=5
    )


async def a_deployment_that_cannot_grow(environment: Environment) -> None:
    """No issue: a deployment is scaled up, and a quota allows no more pods.

    Upstream's budget follows when the next pod changes, and allows too much until
    then. Here the new scale counts at once.
    """
    await _start(environment, maxUnavailable=1)
    kind = environment.world.kind("resourcequotas")
    quota = {"metadata": {"name": "quota"}, "spec": {"hard": {"pods": "3"}}}
    environment.world.server.objects.create(kind, NAMESPACE, quota)
    environment.edit(replicas=6)
    await environment.until(
        _says(environment, expectedPods=6, disruptionsAllowed=0), within=5
    )


async def a_limit_that_is_taken_away(environment: Environment) -> None:
    """No issue: a user removes the only limit of a budget.

    As upstream: the budget then expects no pods, and none may be evicted.
    """
    await _start(environment, minAvailable=1)

    def edit(obj: JSON) -> None:
        del obj["spec"]["minAvailable"]

    environment.world.change("poddisruptionbudgets", _budget(environment), edit)
    await environment.until(
        _says(environment, observedGeneration=2, expectedPods=0), within=5
    )
    first = _pods(environment)[0]["metadata"]["name"]
    assert await evict(environment.world, NAMESPACE, first) == 429


SCENARIOS: Final[tuple[Scenario, ...]] = (
    evictions_that_no_cache_shows,
    evictions_that_a_status_does_not_know,
    evictions_that_never_come,
    a_container_that_crashes,
    a_deployment_that_cannot_grow,
    a_limit_that_is_taken_away,
)
