"""Upstream's known faults, each as a scenario.

Every function is one; its docstring says where it was reported, what upstream
does, and what must happen here. It takes an environment with one manager, in which
only the scenario causes faults. Here are those that concern any controller; a
controller has its own in a module ``scenarios`` beside its tests, in
``SCENARIOS``. Those of `cluster_faults` come from clusters, not from upstream.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from tests.simulation import rough
from tests.simulation.ending import sizes_of
from tests.simulation.finding import modules
from tests.simulation.network import OldReplica
from tests.simulation.runner import run
from tests.simulation.stage import Scenario, Stage, play_on_stage

JSON = dict[str, Any]


async def cache_goes_back_in_time(stage: Stage) -> None:
    """kubernetes#59848: restarted against an API server that is behind.

    Upstream once began with the content of any replica's cache, and acted on a past
    state with fewer pods. Here the first list is a consistent one, and no later list
    may be older than an earlier one: no pod is created or deleted.
    """
    stage.create(replicas=2)
    await stage.until(stage.is_complete, within=60)
    past = stage.world.server.storage.version
    stage.edit(replicas=6)
    await stage.until(stage.is_complete, within=60)
    pods = stage.live_pods()
    stage.manager.line.old = OldReplica(past, stage.now + 120)
    stage.manager.crash()
    await asyncio.sleep(300)
    assert stage.live_pods() == pods
    assert stage.is_complete()


async def clock_of_a_standby_is_behind(stage: Stage) -> None:
    """No upstream issue: a warm standby, whose clock is a minute behind, takes over.

    Objects that the former leader may have made are read from the server. An early
    version decided by its own clock which objects these were: an existing replica set
    looked new, and each of its pods was created again (seed 437).
    """
    await asyncio.sleep(10)
    leader, standby = sorted(stage.world.managers, key=lambda each: not each.leads)
    assert leader.leads
    standby.skew = -60.0
    standby.crash()
    await asyncio.sleep(20)
    standby.line.lagging["pods"] = stage.now + 300
    stage.create(replicas=5)
    await asyncio.sleep(5)
    leader.line.down_until = stage.now + 900
    leader.crash()
    for _ in range(40):
        await asyncio.sleep(10)
        assert len(stage.live_pods()) <= 5
    assert standby.leads
    assert stage.is_complete()


async def a_week_of_churn(stage: Stage) -> None:
    """Nothing grows while deployments come and go for a week.

    kubernetes#117123 again: the memory of a manager must depend on the present
    objects, not on past ones. Each deployment is created, rolled out and deleted;
    twenty exist at a time.
    """
    pause = 7 * 86400 / stage.churn
    sizes: list[Mapping[str, int]] = []
    for number in range(stage.churn):
        stage.create(f"web-{number}", replicas=1)
        if number >= 20:
            stage.world.delete("deployments", stage.get(f"web-{number - 20}"))
        await asyncio.sleep(pause)
        if number % (stage.churn // 5) == stage.churn // 5 - 1:
            assert stage.manager.manager is not None
            sizes.append(sizes_of(stage.manager.manager))
    early, late = sizes[1], sizes[-1]
    grown = {
        where: (early.get(where, 0), size)
        for where, size in late.items()
        if size > early.get(where, 0) + 10 and not where.startswith(_BOUNDED)
    }
    assert grown == {}
    assert max(late.values()) <= 4096


_BOUNDED: Final = (
    "manager.broadcasters.correlator",
    "manager.factory.informers.reflector.compact",
)
"""Collections that keep up to 4,096 entries of each sort: that is no growth."""

NAMED: Final[Mapping[str, Scenario]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        cache_goes_back_in_time,
        clock_of_a_standby_is_behind,
        a_week_of_churn,
        *rough.SCENARIOS,
        *(scenario for each in modules("scenarios") for scenario in each.SCENARIOS),
    )
}


_PAIRS: Final = (clock_of_a_standby_is_behind, *rough.PAIRS)
"""Scenarios that need a leader and a standby."""


def play_named(
    name: str, churn: int = 10_000, more_properties: tuple[str, ...] = ()
) -> list[str]:
    """Return the violations in a scenario."""
    scenario = NAMED[name]
    managers = 2 if scenario in _PAIRS else 1
    return run(play_on_stage(scenario, churn, managers, more_properties))
