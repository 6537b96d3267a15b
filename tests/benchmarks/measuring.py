"""The parts of all benchmarks: a cluster with a manager at work, steps, probes."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import aiohttp

from tests.benchmarks.clusters import BenchCluster, cluster_for
from tests.benchmarks.contenders import Contender, Running
from tests.benchmarks.kinds import DEPLOYMENTS, Work

Figures = dict[str, float]

SETTLE: Final = 3.0
"""Seconds after which a manager that has just worked is at rest."""

BEGUN: Final = 0.1
"""Seconds of CPU after which a manager has started to work."""

_PROBE: Final = 0.02


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes, cluster and directory of a run."""

    deployments: int = 20
    replicas: int = 50
    idle_pods: int | None = None
    kubeconfig: Path | None = None
    logs: Path = Path()

    def sized(self, idle_pods: int) -> "Options":
        """Return options with this number of idle pods, unless the user chose one."""
        asked = self.idle_pods
        return replace(self, idle_pods=idle_pods if asked is None else asked)


@asynccontextmanager
async def manager_at_work(
    contender: Contender, options: Options, *, probes: bool = True
) -> AsyncGenerator[tuple[BenchCluster, Running], None]:
    """Yield a cluster, and a manager that has completed one deployment on it.

    The manager runs the controllers of deployments. Without `probes`, nothing
    connects to it during its start, so that a server costs nothing yet.
    """
    work = DEPLOYMENTS
    contender = contender.running_only(work.controllers)
    idle_pods = options.idle_pods or 0
    async with cluster_for(options.kubeconfig, idle_pods) as cluster:
        await cluster.driver.create(work, "first", 1)
        log = options.logs / f"{contender.name}.log"
        with contender.running(cluster.kubeconfig, log) as running:
            first = cluster.driver.until_complete(work, {"first"}, running.check)
            if not probes:
                await first
                yield cluster, running
                return
            async with probed(running) as longest:
                await first
            yield cluster, replace(running, longest_answer=longest())


async def measure_steps(
    cluster: BenchCluster,
    running: Running,
    work: Work,
    names: set[str],
    steps: Mapping[str, Callable[[str], Awaitable[None]]],
) -> Figures:
    """Take each step for all objects at once, and measure until all are complete.

    A manager writes events in the background. To compare two, the CPU time until the
    manager is at rest counts: one may have written fewer events by the end of a step.
    """
    figures: Figures = {}
    await asyncio.sleep(1)
    for step, act in steps.items():
        await cluster.counts()
        before, started = running.usage(), time.monotonic()
        await asyncio.gather(*(act(name) for name in sorted(names)))
        done = await cluster.driver.until_complete(work, names, running.check)
        figures[f"{step}: wall, s"] = done - started
        figures[f"{step}: CPU, s"] = running.usage().cpu - before.cpu
        await asyncio.sleep(1)
        await until_calm(running)
        figures[f"{step}: CPU until at rest, s"] = running.usage().cpu - before.cpu
        for verb, count in sorted((await cluster.counts() or {}).items()):
            figures[f"{step}: {verb}"] = count
        figures[f"{step}: resident, MB"] = running.usage().resident
    return figures


@asynccontextmanager
async def probed(running: Running) -> AsyncGenerator[Callable[[], float | None], None]:
    """Request /healthz while entered; yield a function for the longest time so far.

    It returns None for a contender that serves nothing, or nothing yet.
    """
    longest: float | None = None
    url = f"https://127.0.0.1:{running.port}/healthz"

    async def probe() -> None:
        nonlocal longest
        connector = aiohttp.TCPConnector(ssl=False)
        async with aiohttp.ClientSession(connector=connector) as session:
            while True:
                started = time.monotonic()
                try:
                    async with session.get(url) as answer:
                        await answer.read()
                except aiohttp.ClientConnectorError:
                    pass  # the manager does not serve yet
                else:
                    longest = max(longest or 0.0, time.monotonic() - started)
                await asyncio.sleep(_PROBE)

    probing = asyncio.create_task(probe())
    try:
        yield lambda: longest
    finally:
        probing.cancel()
        with suppress(asyncio.CancelledError):
            await probing


async def until_calm(running: Running) -> None:
    """Wait until the manager has started to work, and then uses hardly any CPU."""
    while True:
        before = running.usage().cpu
        await asyncio.sleep(0.5)
        if before > BEGUN and running.usage().cpu - before < 0.05:
            return
