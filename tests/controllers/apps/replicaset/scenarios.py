"""Upstream's known faults with replica sets, each caused on purpose."""

import asyncio
from typing import Final

from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE


async def surplus_pods_after_expectations_expire(environment: Environment) -> None:
    """kubernetes#129795: a watch that lags for more than five minutes.

    After five minutes, upstream drops its expectations, uses its cache, and creates the
    same number of pods again. This controller then reads from the API server, finds the
    pods, and waits for the watch.
    """
    environment.manager.connection.lagging["pods"] = environment.now + 1200
    environment.create(replicas=10)
    for _ in range(150):
        await asyncio.sleep(10)
        assert len(environment.live_pods()) <= 10
    await environment.until(environment.is_complete, within=60)


async def quota_is_raised(environment: Environment) -> None:
    """kubernetes#98656: a quota that was in the way for hours is raised.

    Upstream has come to try once in 1,000 seconds by then, and takes up to 16
    minutes to notice. Here it is two minutes at most.
    """
    kind = environment.world.kind("resourcequotas")
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    stored = environment.world.server.objects.create(kind, NAMESPACE, quota)
    await asyncio.sleep(5)  # a quota holds once its controller has counted
    environment.create(replicas=3)
    await asyncio.sleep(3 * 3600)
    assert environment.status("availableReplicas") == 2
    assert environment.condition("ReplicaFailure") == ("True", "FailedCreate")
    environment.world.delete("resourcequotas", stored.obj)
    await environment.until(environment.is_complete, within=130)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    surplus_pods_after_expectations_expire,
    quota_is_raised,
)
