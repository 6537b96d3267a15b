"""Situations in clusters that concern only the quota controller."""

import asyncio
from typing import Any, Final

from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

JSON = dict[str, Any]

_LAG: Final = 20.0
"""Seconds that the cache of pods lags behind."""


def _create(environment: Environment, plural: str, obj: JSON) -> None:
    kind = environment.world.kind(plural)
    environment.world.server.objects.create(kind, NAMESPACE, obj)


def _used(environment: Environment) -> JSON:
    found = environment.world.find("resourcequotas", NAMESPACE, "q")
    assert found is not None
    used: JSON = found["status"].get("used", {})
    return used


async def admitted_before_it_is_seen(environment: Environment) -> None:
    """No issue: a quota is counted before the cache shows a pod that was charged.

    Upstream takes the charge back until it counts all quotas, up to five minutes.
    """
    await asyncio.sleep(10)
    _create(environment, "secrets", {"metadata": {"name": "s"}})
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "9", "secrets": "9"}}}
    _create(environment, "resourcequotas", quota)
    await environment.until(
        lambda: _used(environment) == {"pods": "0", "secrets": "1"}, within=10
    )
    environment.manager.connection.lagging["pods"] = environment.now + _LAG
    containers = [{"name": "c", "image": "app:v1"}]
    pod = {"metadata": {"name": "p"}, "spec": {"containers": containers}}
    _create(environment, "pods", pod)
    secret = environment.world.find("secrets", NAMESPACE, "s")
    assert secret is not None
    environment.world.delete("secrets", secret)
    await environment.until(
        lambda: _used(environment) == {"pods": "0", "secrets": "0"}, within=10
    )
    await environment.until(
        lambda: _used(environment) == {"pods": "1", "secrets": "0"}, within=_LAG + 10
    )


SCENARIOS: Final[tuple[Scenario, ...]] = (admitted_before_it_is_seen,)
