"""Devices that break while no manager runs, or while its watch is silent."""

import asyncio
from typing import Final

from tests.controllers.nodes.devicetainteviction.workload import (
    publish,
    rule,
    run,
    taint,
    untaint,
)
from tests.controllers.nodes.pods import remaining_pods
from tests.simulation.environment import Environment, Scenario


async def device_breaks_while_no_manager_runs(environment: Environment) -> None:
    """Evict each pod at its own time, which also passes while no manager runs."""
    _create(environment)
    await asyncio.sleep(20)
    environment.manager.pause(60)
    taint(environment.world, "gpu-0")
    await asyncio.sleep(65)
    assert remaining_pods(environment) == ["ever", "minutes", "other"]
    environment.manager.crash()
    await asyncio.sleep(50)
    assert remaining_pods(environment) == ["ever", "minutes", "other"]
    await asyncio.sleep(10)
    assert remaining_pods(environment) == ["ever", "other"]


async def watch_of_slices_is_silent(environment: Environment) -> None:
    """Repair a device while the watch of slices is silent: the pod stays.

    Upstream evicts it.
    """
    _create(environment)
    await asyncio.sleep(10)
    taint(environment.world, "gpu-0")
    await asyncio.sleep(30)
    environment.manager.connection.lagging["resourceslices"] = environment.now + 200
    untaint(environment.world, "gpu-0")
    await asyncio.sleep(300)
    assert remaining_pods(environment) == ["ever", "minutes", "other"]


async def rule_taints_a_device(environment: Environment) -> None:
    """Evict by a rule; its status shows the progress."""
    _create(environment)
    await asyncio.sleep(10)
    rule(environment.world, "gpu-1")
    await asyncio.sleep(30)
    assert remaining_pods(environment) == ["ever", "minutes", "now"]
    found = environment.world.find("devicetaintrules", "", "gpu-1")
    assert found is not None
    (condition,) = found["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == (
        "Completed",
        "1 pod evicted since starting the controller.",
    )


def _create(environment: Environment) -> None:
    publish(environment.world)
    run(environment.world, "now", "gpu-0")
    run(environment.world, "minutes", "gpu-0", 120)
    run(environment.world, "ever", "gpu-0", None)
    run(environment.world, "other", "gpu-1")


SCENARIOS: Final[tuple[Scenario, ...]] = (
    device_breaks_while_no_manager_runs,
    watch_of_slices_is_silent,
    rule_taints_a_device,
)
