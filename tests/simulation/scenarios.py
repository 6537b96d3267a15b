"""Upstream's known faults, each played on purpose.

Every function is one; its docstring says where it was reported, what upstream
does, and what must be seen here. It is handed a stage with one manager on it,
on which nothing goes wrong that it does not do itself. Here are those that any
controller may meet; a controller has its own in a module ``scenarios`` beside its
tests, in ``SCENARIOS``. Those of `rough` are what clusters bring about.
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

    Upstream once began with whatever a replica's cache held, and acted on a past
    in which there were fewer pods. Here the first list is a consistent one, and
    no later one may be older than what was seen: no pod is created or deleted.
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

    What the leader before it made is looked up on the server. To tell what that
    was by one's own clock, as was done here once, made a replica set that was
    there look new, and each of its pods was created again (seed 437).
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

    kubernetes#117123 again: what a manager keeps must depend on what there is,
    not on what there was. Each deployment is created, rolled out and deleted;
    twenty are there at a time.
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
"""What remembers as much as it may, 4,096 of each sort: that is no growth."""

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
    """Return what goes wrong in a scenario."""
    scenario = NAMED[name]
    managers = 2 if scenario in _PAIRS else 1
    return run(play_on_stage(scenario, churn, managers, more_properties))
