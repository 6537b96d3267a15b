"""The benchmarks: the work of each, and the figures that it measures."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from tests.benchmarks.clusters import BenchCluster
from tests.benchmarks.contenders import Contender, Running
from tests.benchmarks.kinds import DEPLOYMENTS
from tests.benchmarks.measuring import (
    SETTLE,
    Figures,
    Options,
    manager_at_work,
    measure_steps,
    probed,
    until_calm,
)

_STORM_RATE: Final = 10_000
_STORM_SECONDS: Final = 10.0
_KNOWN: Final = 100_000


async def _create(cluster: BenchCluster, name: str, replicas: int) -> None:
    await cluster.driver.create(DEPLOYMENTS, name, replicas)


async def _complete(cluster: BenchCluster, running: Running, names: set[str]) -> float:
    """Return when the last of these deployments was complete."""
    return await cluster.driver.until_complete(DEPLOYMENTS, names, running.check)


async def rollout(contender: Contender, options: Options) -> Figures:
    """Create deployments, roll all of them to a new image, scale them to nothing."""
    names = {f"web-{number}" for number in range(options.deployments)}
    async with manager_at_work(contender, options) as (cluster, running):
        driver = cluster.driver
        image = {"template": {"spec": {"containers": [{"name": "app", "image": "v2"}]}}}
        steps = {
            "create": lambda name: _create(cluster, name, options.replicas),
            "roll": lambda name: driver.edit(DEPLOYMENTS, name, image),
            "scale down": lambda name: driver.edit(DEPLOYMENTS, name, {"replicas": 0}),
        }
        return await measure_steps(cluster, running, DEPLOYMENTS, names, steps)


async def cold_start(contender: Contender, options: Options) -> Figures:
    """Start a manager on small and on large clusters, where a deployment waits.

    The first start of each size has no probes; the second one has, and tells how late
    their answers are.
    """
    figures: Figures = {}
    asked = options.idle_pods
    for idle_pods in (0, _KNOWN) if asked is None else (asked,):
        sized = replace(options, idle_pods=idle_pods)
        for name, value in (await _start(contender, sized)).items():
            figures[f"start, {idle_pods} idle pods: {name}"] = value
    return figures


async def _start(contender: Contender, options: Options) -> Figures:
    """Measure two starts, until a first deployment is rolled out."""
    async with manager_at_work(contender, options, probes=False) as (_, running):
        wall, first = time.monotonic() - running.started, running.usage()
        await asyncio.sleep(SETTLE)
        after = running.usage()
    figures = {
        "wall, s": wall,
        "CPU, s": first.cpu,
        "resident, MB": after.resident,
        "peak, MB": after.peak,
    }
    async with manager_at_work(contender, options) as (_, running):
        figures["CPU with probes, s"] = running.usage().cpu
        if running.longest_answer is not None:
            figures["longest stall, ms"] = 1000 * running.longest_answer
    return figures


async def watch_storm(contender: Contender, options: Options) -> Figures:
    """Change 10,000 pods a second; the manager must keep up, and answer meanwhile."""
    async with manager_at_work(contender, options.sized(10_000)) as (cluster, running):
        await asyncio.sleep(SETTLE)
        await cluster.counts()
        before = running.usage()
        async with probed(running) as longest:
            storm = await cluster.storm(_STORM_RATE, _STORM_SECONDS)
            # Requests in flight count as well.
            await until_calm(running)
        cpu = running.usage().cpu - before.cpu
        counts = await cluster.counts() or {}
        started = time.monotonic()
        await _create(cluster, "after", 5)
        done = await _complete(cluster, running, {"after"})
    figures = {
        "storm: events a second": storm["events"] / storm["seconds"],
        "storm: CPU an event, µs": 1e6 * cpu / storm["events"],
        "storm: watches broken": float(counts.get("WATCH", 0)),
        "storm: next deployment, s": done - started,
    }
    if (stall := longest()) is not None:
        figures["storm: longest stall, ms"] = 1000 * stall
    return figures


async def memory(contender: Contender, options: Options) -> Figures:
    """Own 1,000 pods, with a growing number of idle pods in the cluster."""
    figures: Figures = {}
    asked = options.idle_pods
    for idle_pods in (0, 10_000, _KNOWN) if asked is None else (0, asked):
        sized = replace(options, idle_pods=idle_pods)
        async with manager_at_work(contender, sized) as (cluster, running):
            names = {f"web-{number}" for number in range(options.deployments)}
            await asyncio.gather(
                *(_create(cluster, name, options.replicas) for name in names)
            )
            await _complete(cluster, running, names)
            await asyncio.sleep(SETTLE)
            usage = running.usage()
        label = f"memory: {idle_pods} idle pods"
        figures[f"{label}, resident, MB"] = usage.resident
        figures[f"{label}, peak, MB"] = usage.peak
    return figures


BENCHMARKS: Final[Mapping[str, Callable[[Contender, Options], Any]]] = {
    "rollout": rollout,
    "cold-start": cold_start,
    "watch-storm": watch_storm,
    "memory": memory,
}
