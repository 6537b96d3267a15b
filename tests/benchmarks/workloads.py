"""The benchmarks: the work of each, and the figures that it measures."""

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from tests.benchmarks.answers import steady_requests
from tests.benchmarks.attachments import attachments
from tests.benchmarks.autoscalers import autoscalers
from tests.benchmarks.budgets import budgets
from tests.benchmarks.clusters import BenchCluster, cluster_for
from tests.benchmarks.contenders import Contender, Running
from tests.benchmarks.driver import (
    CONFIG_MAPS,
    PODS,
    DriverError,
    checked,
)
from tests.benchmarks.heartbeats import heartbeats
from tests.benchmarks.kinds import DEPLOYMENTS
from tests.benchmarks.measuring import (
    BEGUN,
    SETTLE,
    Figures,
    Options,
    manager_at_work,
    probed,
    until_calm,
)
from tests.benchmarks.metrics import read_metrics, token_in
from tests.benchmarks.quotas import quota_recount
from tests.benchmarks.rollouts import daemon_sets, jobs, rollout, stateful_sets
from tests.benchmarks.services import many_services, service_churn
from tests.benchmarks.volumes import volumes

_HEALED: Final = 60
_STORM_RATE: Final = 10_000
_STORM_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 10.0
_SAMPLE: Final = 0.05
"""Seconds between two samples of a busy manager's CPU time."""

_BUSY: Final = 0.2
"""Share of a core above which a manager is busy; it answers probes with less."""

_CALM: Final = 1.0
"""Seconds without being busy after which all work is done."""

_SYNCS: Final = "workqueue_work_duration_seconds_count"
_TURN: Final = "event_loop_longest_turn_seconds"
_KNOWN: Final = 100_000
_DEPENDENTS: Final = 10_000
_COLLECTOR: Final = "garbage-collector-controller"


async def _create(cluster: BenchCluster, name: str, replicas: int) -> None:
    await cluster.driver.create(DEPLOYMENTS, name, replicas)


async def _complete(cluster: BenchCluster, running: Running, names: set[str]) -> float:
    """Return when the last of these deployments was complete."""
    return await cluster.driver.until_complete(DEPLOYMENTS, names, running.check)


async def heal(contender: Contender, options: Options) -> Figures:
    """Delete a pod and wait for its replacement, many times."""
    async with manager_at_work(contender, options) as (cluster, running):
        return await _healing(cluster, running, options.replicas)


async def _healing(cluster: BenchCluster, running: Running, replicas: int) -> Figures:
    """Measure the healing of a new deployment."""
    await _create(cluster, "heal", replicas)
    await _complete(cluster, running, {"heal"})
    await asyncio.sleep(1)
    before = running.usage()
    seconds: list[float] = await checked(_heal(cluster), running.check)
    cpu = running.usage().cpu - before.cpu
    milliseconds = sorted(1000 * each for each in seconds)
    percentiles = statistics.quantiles(milliseconds, n=100, method="inclusive")
    return {
        "heal: median, ms": statistics.median(milliseconds),
        "heal: 99th percentile, ms": percentiles[98],
        "heal: CPU a pod, ms": 1000 * cpu / len(seconds),
    }


async def _heal(cluster: BenchCluster) -> list[float]:
    """Return how long each replacement took to appear."""
    listed = await cluster.driver.call("GET", f"{PODS}?labelSelector=app=heal")
    names = [each["metadata"]["name"] for each in listed["items"]]
    version = listed["metadata"]["resourceVersion"]
    appeared: asyncio.Queue[str] = asyncio.Queue()

    async def follow() -> None:
        async with aclosing(cluster.driver.watch(PODS, version)) as events:
            async for kind, pod in events:
                if kind == "ADDED":
                    appeared.put_nowait(pod["metadata"]["name"])

    following = asyncio.create_task(follow())
    seconds = []
    try:
        for _ in range(_HEALED):
            name = names.pop(0)
            started = time.monotonic()
            await cluster.driver.call("DELETE", f"{PODS}/{name}")
            names.append(await appeared.get())
            seconds.append(time.monotonic() - started)
            await asyncio.sleep(0.05)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    return seconds


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


async def idle(contender: Contender, options: Options) -> Figures:
    """Measure a manager without work."""
    async with manager_at_work(contender, options) as (_, running):
        await asyncio.sleep(SETTLE)
        before = running.usage()
        await asyncio.sleep(_IDLE_SECONDS)
        cpu = running.usage().cpu - before.cpu
    return {"idle: CPU a second, ms": 1000 * cpu / _IDLE_SECONDS}


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


async def collect(contender: Contender, options: Options) -> Figures:
    """Cache 100,000 objects, and collect 10,000 that lose their owner.

    Only the garbage collector runs: it replaces the other controllers in the
    command.
    """
    alone = contender.running_only(_COLLECTOR)
    bare = await _resident(alone, options)
    sized = options.sized(_KNOWN - _DEPENDENTS)
    async with cluster_for(options.kubeconfig, sized.idle_pods or 0) as cluster:
        owner = await cluster.driver.create_owner(_DEPENDENTS)
        log = options.logs / f"{contender.name}.log"
        with alone.running(cluster.kubeconfig, log) as running:
            await until_calm(running)
            started = running.usage()
            await cluster.counts()
            began = time.monotonic()
            await cluster.driver.call("DELETE", f"{CONFIG_MAPS}/{owner}")
            await checked(cluster.driver.until_collected(), running.check)
            wall = time.monotonic() - began
            after = running.usage()
            counts = await cluster.counts() or {}
    known = (sized.idle_pods or 0) + _DEPENDENTS
    figures = {
        "collect: resident, MB": started.resident,
        "collect: memory an object, kB": 1000 * (started.resident - bare) / known,
        "collect: wall, s": wall,
        "collect: CPU, s": after.cpu - started.cpu,
    }
    for verb, count in sorted(counts.items()):
        figures[f"collect: {verb}"] = count
    return figures


async def _resident(contender: Contender, options: Options) -> float:
    """Return the memory of a garbage collector with almost no objects to cache."""
    async with cluster_for(options.kubeconfig, 0) as cluster:
        log = options.logs / f"{contender.name}.log"
        with contender.running(cluster.kubeconfig, log) as running:
            await until_calm(running)
            return running.usage().resident


async def settled(contender: Contender, options: Options) -> Figures:
    """Start a manager on a cluster with thousands of settled replica sets.

    It syncs each of them, and must answer /livez meanwhile.
    """
    if options.kubeconfig is not None:
        msg = "settled needs the cluster of its own; leave out --kubeconfig"
        raise DriverError(msg)
    log = options.logs / f"{contender.name}.log"
    async with cluster_for(None, 0, options.replica_sets) as cluster:
        with contender.running(cluster.kubeconfig, log) as running:
            url = f"https://127.0.0.1:{running.port}/livez"
            async with steady_requests(url) as answers:
                done, cpu = await _until_done(running)
            counts = await cluster.counts() or {}
            metrics = await read_metrics(running.port, token_in(cluster.kubeconfig))
    figures = {"settled: CPU, s": cpu}
    if waits := answers.until(done):
        figures |= _lateness(waits, metrics)
    if _SYNCS in metrics:
        figures["settled: syncs"] = metrics[_SYNCS]
    for verb, count in sorted(counts.items()):
        figures[f"settled: {verb}"] = count
    return figures


def _lateness(waits: list[float], metrics: Mapping[str, float]) -> Figures:
    """Return how late the answers were, and the longest turn of the event loop.

    A manager without the metric of the longest turn had a turn about as long as its
    slowest answer.
    """
    return {
        "settled: longest turn, ms": 1000 * metrics.get(_TURN, waits[-1]),
        "settled: slowest answer, ms": 1000 * waits[-1],
        "settled: 99th percentile, ms": 1000 * waits[int(0.99 * (len(waits) - 1))],
    }


async def _until_done(running: Running) -> tuple[float, float]:
    """Wait until the manager has worked; return when it ended, and its CPU seconds.

    Answers after the end are not counted: answers of an idle manager would hide
    the late ones.
    """
    end, cpu = time.monotonic(), running.usage().cpu
    before = end, cpu
    while before[1] < BEGUN or before[0] - end < _CALM:
        await asyncio.sleep(_SAMPLE)
        now = time.monotonic(), running.usage().cpu
        if now[1] - before[1] > _BUSY * (now[0] - before[0]):
            end, cpu = now
        before = now
    return end, cpu


BENCHMARKS: Final[Mapping[str, Callable[[Contender, Options], Any]]] = {
    "rollout": rollout,
    "heal": heal,
    "cold-start": cold_start,
    "watch-storm": watch_storm,
    "idle": idle,
    "memory": memory,
    "collect": collect,
    "settled": settled,
    "statefulset": stateful_sets,
    "daemonset": daemon_sets,
    "jobs": jobs,
    "service-churn": service_churn,
    "services": many_services,
    "quota": quota_recount,
    "budgets": budgets,
    "autoscalers": autoscalers,
    "heartbeats": heartbeats,
    "attachments": attachments,
    "volumes": volumes,
}


# Cost against size


async def by_idle_pods(contender: Contender, options: Options, size: int) -> Figures:
    """Measure start and healing with this many pods without an owner."""
    sized = replace(options, idle_pods=size)
    return {**await _start(contender, sized), **await heal(contender, sized)}


async def by_deployments(contender: Contender, options: Options, size: int) -> Figures:
    """Measure healing with this many deployments in the namespace."""
    options = replace(options, idle_pods=0)
    async with manager_at_work(contender, options) as (cluster, running):
        names = {f"web-{number}" for number in range(size)}
        await asyncio.gather(*(_create(cluster, name, 0) for name in names))
        await _complete(cluster, running, names)
        return await _healing(cluster, running, options.replicas)


SIZES: Final[Mapping[str, tuple[Callable[..., Any], tuple[int, ...]]]] = {
    "idle pods": (by_idle_pods, (1_000, 10_000, 100_000)),
    "deployments": (by_deployments, (10, 500, 5_000)),
}
