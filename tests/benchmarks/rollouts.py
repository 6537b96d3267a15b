"""Benchmarks of workloads: create many, roll them, scale them to nothing."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from tests.benchmarks.contenders import Contender
from tests.benchmarks.driver import Driver, checked
from tests.benchmarks.kinds import DAEMON_SETS, DEPLOYMENTS, JOBS, STATEFUL_SETS, Work
from tests.benchmarks.measuring import (
    SETTLE,
    Figures,
    Options,
    manager_at_work,
    measure_steps,
)

_IDENTITIES: Final = 20
"""Pods of each stateful set."""

_COMPLETIONS: Final = 10
"""Pods of each job."""

_HEARTBEAT: Final = 10.0
"""Seconds between two heartbeats of a node."""

_HEARTBEATS: Final = 30.0
"""Seconds for which heartbeats are measured."""

Steps = Mapping[str, Callable[[str], Awaitable[None]]]


def _steps(driver: Driver, work: Work, size: int) -> Steps:
    return {
        "create": lambda name: driver.create(work, name, size),
        "roll": lambda name: driver.set_image(work, name, "app:v2"),
        "scale down": lambda name: driver.edit(work, name, {"replicas": 0}),
    }


async def rollout(contender: Contender, options: Options) -> Figures:
    """Create deployments, roll all of them to a new image, scale them to nothing."""
    names = {f"web-{number}" for number in range(options.deployments)}
    async with manager_at_work(contender, options) as (cluster, running):
        steps = _steps(cluster.driver, DEPLOYMENTS, options.replicas)
        return await measure_steps(cluster, running, DEPLOYMENTS, names, steps)


async def stateful_sets(contender: Contender, options: Options) -> Figures:
    """Create parallel stateful sets, roll each pod by pod, scale them to nothing."""
    names = {f"db-{number}" for number in range(options.stateful_sets)}
    async with manager_at_work(contender, options, STATEFUL_SETS) as (cluster, running):
        steps = _steps(cluster.driver, STATEFUL_SETS, _IDENTITIES)
        return await measure_steps(cluster, running, STATEFUL_SETS, names, steps)


async def jobs(contender: Contender, options: Options) -> Figures:
    """Create jobs whose pods succeed at once, and wait until all are complete."""
    names = {f"batch-{number}" for number in range(options.jobs)}
    async with manager_at_work(contender, options, JOBS) as (cluster, running):
        create = partial(cluster.driver.create, JOBS, size=_COMPLETIONS)
        steps: Steps = {"run": lambda name: create(name=name)}
        return await measure_steps(cluster, running, JOBS, names, steps)


async def daemon_sets(contender: Contender, options: Options) -> Figures:
    """Create a daemon set on many nodes, roll it, then only nodes renew themselves."""
    work, names = DAEMON_SETS, {"agent"}
    async with manager_at_work(contender, options, work) as (cluster, running):
        driver = cluster.driver
        steps: Steps = {
            "create": lambda name: driver.create(work, name, 0),
            "roll": lambda name: driver.set_image(work, name, "app:v2"),
        }
        figures = await measure_steps(cluster, running, work, names, steps)
        await asyncio.sleep(SETTLE)
        nodes = await driver.add_nodes(options.nodes)
        before = running.usage()
        await checked(_heartbeats(driver, nodes), running.check)
        cpu = running.usage().cpu - before.cpu
    beats = len(nodes) * _HEARTBEATS / _HEARTBEAT
    return {
        **figures,
        "heartbeats: CPU a second, ms": 1000 * cpu / _HEARTBEATS,
        "heartbeats: CPU each, µs": 1e6 * cpu / beats,
    }


async def _heartbeats(driver: Driver, nodes: list[str]) -> None:
    """Renew every node each ten seconds, evenly spread."""
    began = time.monotonic()
    pause = _HEARTBEAT / len(nodes)
    for number, node in enumerate(itertools.cycle(nodes)):
        due = began + number * pause
        if due > began + _HEARTBEATS:
            return
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        await driver.heartbeat(node)
