"""Situations in clusters that concern only the quota controller."""

import asyncio
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

_LAG: Final = 20.0
"""Seconds that the cache of pods lags behind."""


def _create(environment: Environment, plural: str, obj: JSON) -> None:
    kind = environment.world.kind(plural)
    environment.world.server.objects.create(kind, NAMESPACE, obj)


def _used(environment: Environment, name: str = "q") -> JSON:
    found = environment.world.find("resourcequotas", NAMESPACE, name)
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


def _limit(environment: Environment, **hard: str) -> None:
    found = environment.world.find("resourcequotas", NAMESPACE, "q")
    assert found is not None
    environment.world.change(
        "resourcequotas", found, lambda obj: obj["spec"].update(hard=hard)
    )


async def counted_at_once(environment: Environment) -> None:
    """No issue: limits change, and objects free their usage.

    The usage is right before the recount of all quotas.
    """
    await asyncio.sleep(10)
    for name, deadline in (("a", None), ("b", 3600)):
        containers = [{"name": "c", "image": "app:v1"}]
        spec = {"containers": containers, "activeDeadlineSeconds": deadline}
        pod = {"metadata": {"name": name}, "spec": spec}
        _create(environment, "pods", pod)
    _create(environment, "secrets", {"metadata": {"name": "s"}})
    hard = {"pods": "9", "secrets": "9"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    _create(environment, "resourcequotas", quota)
    scoped = {"hard": {"pods": "9"}, "scopes": ["Terminating"]}
    _create(environment, "resourcequotas", {"metadata": {"name": "t"}, "spec": scoped})
    expected: JSON = {"pods": "2", "secrets": "1"}
    await environment.until(lambda: _used(environment) == expected, within=10)
    assert _used(environment, "t") == {"pods": "1"}
    environment.world.delete("pods", environment.world.stored("pods", NAMESPACE)[0])
    expected = {"pods": "1", "secrets": "1"}
    await environment.until(lambda: _used(environment) == expected, within=60)
    secret = environment.world.find("secrets", NAMESPACE, "s")
    assert secret is not None
    environment.world.delete("secrets", secret)
    expected = {"pods": "1", "secrets": "0"}
    await environment.until(lambda: _used(environment) == expected, within=10)
    _limit(environment, pods="5")
    await environment.until(lambda: _used(environment) == {"pods": "1"}, within=10)


SCENARIOS: Final[tuple[Scenario, ...]] = (admitted_before_it_is_seen, counted_at_once)
