"""Upstream's known faults, each as a scenario.

Every function is one; its docstring says where it was reported, what upstream
does, and what must happen here. It takes an environment with one manager, in which
only the scenario causes faults. Here are those that concern any controller; a
controller has its own in a module ``scenarios`` beside its tests, in
``SCENARIOS``, and those that need a standby also in ``PAIRS``. Those of
`cluster_faults` come from clusters, not from upstream.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from tests.simulation import cluster_faults
from tests.simulation.ending import sizes_of
from tests.simulation.environment import (
    WEEK_OF_CHURN,
    Environment,
    Scenario,
    play_in_environment,
)
from tests.simulation.finding import modules
from tests.simulation.network import OldReplica
from tests.simulation.runner import run


async def cache_goes_back_in_time(environment: Environment) -> None:
    """kubernetes#59848: restarted against an API server that is behind.

    Upstream once began with the content of any replica's cache, and acted on a past
    state with fewer pods. Here the first list is a consistent one, and no later list
    may be older than an earlier one: no pod is created or deleted.
    """
    environment.create(replicas=2)
    await environment.until(environment.is_complete, within=60)
    past = environment.world.server.storage.version
    environment.edit(replicas=6)
    await environment.until(environment.is_complete, within=60)
    pods = environment.live_pods()
    environment.manager.connection.old = OldReplica(past, environment.now + 120)
    environment.manager.crash()
    await asyncio.sleep(300)
    assert environment.live_pods() == pods
    assert environment.is_complete()


async def clock_of_a_standby_is_behind(environment: Environment) -> None:
    """No upstream issue: a warm standby, whose clock is a minute behind, takes over.

    Objects that the former leader may have made are read from the server. An early
    version decided by its own clock which objects these were: an existing replica set
    looked new, and each of its pods was created again (seed 437).
    """
    await asyncio.sleep(10)
    leader, standby = sorted(
        environment.world.managers, key=lambda each: not each.leads
    )
    assert leader.leads
    standby.skew = -60.0
    standby.crash()
    await asyncio.sleep(20)
    standby.connection.lagging["pods"] = environment.now + 300
    environment.create(replicas=5)
    await asyncio.sleep(5)
    leader.connection.down_until = environment.now + 900
    leader.crash()
    for _ in range(40):
        await asyncio.sleep(10)
        assert len(environment.live_pods()) <= 5
    assert standby.leads
    assert environment.is_complete()


async def a_week_of_churn(environment: Environment) -> None:
    """Nothing grows while deployments come and go for a week, or as many as asked for.

    kubernetes#117123 again: the memory of a manager must depend on the present
    objects, not on past ones. Each deployment is created, rolled out and deleted;
    twenty exist at a time.
    """
    pause = 7 * 86400 / WEEK_OF_CHURN
    sizes: list[Mapping[str, int]] = []
    for number in range(environment.churn):
        environment.create(f"web-{number}", replicas=1)
        if number >= 20:
            environment.world.delete(
                "deployments", environment.get(f"web-{number - 20}")
            )
        await asyncio.sleep(pause)
        if number % (environment.churn // 5) == environment.churn // 5 - 1:
            assert environment.manager.manager is not None
            sizes.append(sizes_of(environment.manager.manager))
    early, late = sizes[1], sizes[-1]
    grown = {
        where: (early.get(where, 0), size)
        for where, size in late.items()
        if size > early.get(where, 0) + 10
        and not any(each in where for each in _BOUNDED)
    }
    assert grown == {}, grown
    assert max(late.values()) <= 4096


_BOUNDED: Final = (
    ".correlator.",
    ".reflector.transform.",
)
"""Collections that keep up to 4,096 entries of each sort: that is no growth."""

NAMED: Final[Mapping[str, Scenario]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        cache_goes_back_in_time,
        clock_of_a_standby_is_behind,
        a_week_of_churn,
        *cluster_faults.SCENARIOS,
        *(scenario for each in modules("scenarios") for scenario in each.SCENARIOS),
    )
}


_PAIRS: Final = (
    clock_of_a_standby_is_behind,
    *cluster_faults.PAIRS,
    *(pair for each in modules("scenarios") for pair in getattr(each, "PAIRS", ())),
)
"""Scenarios that need a leader and a standby."""


def play_named(
    name: str, churn: int = WEEK_OF_CHURN, more_properties: tuple[str, ...] = ()
) -> list[str]:
    """Return the violations in a scenario."""
    scenario = NAMED[name]
    managers = 2 if scenario in _PAIRS else 1
    return run(play_in_environment(scenario, churn, managers, more_properties))
