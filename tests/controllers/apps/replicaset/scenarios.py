"""Upstream's known faults with replica sets, each played on purpose."""

import asyncio
from typing import Any, Final

from tests.simulation.stage import Scenario, Stage
from tests.simulation.world import NAMESPACE

JSON = dict[str, Any]


async def surplus_pods_after_expectations_expire(stage: Stage) -> None:
    """kubernetes#129795: a watch that lags for more than five minutes.

    Upstream no longer believes what it expects after five minutes, acts on its
    cache, and creates as many pods again. Here it looks at the server then, sees
    that they are there, and waits for the watch.
    """
    stage.manager.line.lagging["pods"] = stage.now + 1200
    stage.create(replicas=10)
    for _ in range(150):
        await asyncio.sleep(10)
        assert len(stage.live_pods()) <= 10
    await stage.until(stage.is_complete, within=60)


async def quota_is_raised(stage: Stage) -> None:
    """kubernetes#98656: a quota that was in the way for hours is raised.

    Upstream has come to try once in 1,000 seconds by then, and takes up to 16
    minutes to notice. Here it is two minutes at most.
    """
    kind = stage.world.kind("resourcequotas")
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    stored = stage.world.server.objects.create(kind, NAMESPACE, quota)
    stage.create(replicas=3)
    await asyncio.sleep(3 * 3600)
    assert stage.status("availableReplicas") == 2
    assert stage.condition("ReplicaFailure") == ("True", "FailedCreate")
    stage.world.delete("resourcequotas", stored.obj)
    await stage.until(stage.is_complete, within=130)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    surplus_pods_after_expectations_expire,
    quota_is_raised,
)
