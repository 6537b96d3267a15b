"""One run: a cluster of a size, and a manager that starts, rests and works on it."""

import asyncio
from pathlib import Path
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from tests.benchmarks.clusters import BenchCluster, cluster_for
from tests.benchmarks.contenders import OURS, Contender, Running
from tests.benchmarks.driver import PODS, Driver, checked
from tests.benchmarks.kinds import DEPLOYMENTS, SERVICES, SLICES, Work
from tests.benchmarks.measuring import SETTLE, Figures
from tests.benchmarks.server import idle_pod
from tests.benchmarks.sizing.copies import namespace_of
from tests.benchmarks.sizing.figures import (
    CREATE,
    DELETE,
    PEAK,
    PODS_OF_A_NODE,
    RESIDENT,
    REST,
    START,
)

PODS_OF_A_WORKLOAD: Final = 10
"""About the mean of upstream's load test, which has deployments of 5, 30 and 250."""

_CHANGED: Final = 1000
"""Pods that are created, and then deleted."""

_REST: Final = 30.0
"""Seconds of a measurement at rest: each node renews its lease three times."""

_WINDOW: Final = 5.0
_BUSY: Final = 0.1
"""Share of a core above which a manager is at work: heartbeats cost less."""

_ALL: Final = "*"


async def run(contender: Contender, nodes: int, logs: Path) -> Figures:
    """Measure a manager with all controllers on a cluster of so many nodes.

    Each node has 30 pods. Ten pods are of one deployment, with a service.
    """
    contender = contender.running_only(_ALL)
    log = logs / "manager.log"
    async with cluster_for(None, 0, nodes=nodes) as cluster:
        await _fill(cluster, nodes, logs)
        await cluster.counts()
        with contender.running(cluster.kubeconfig, log) as running:
            figures = await _start(cluster, running)
            rest = await _rest(running)
            figures[REST] = 1000 * rest
            figures[RESIDENT] = running.usage().resident
            figures |= await _change(cluster, running, rest)
            figures[PEAK] = running.usage().peak
    return figures


async def _fill(cluster: BenchCluster, nodes: int, logs: Path) -> None:
    """Let this build settle one workload, and copy it for all nodes."""
    copies = nodes * PODS_OF_A_NODE // PODS_OF_A_WORKLOAD - 1
    for name in {namespace_of(number) for number in range(copies)}:
        body = {"metadata": {"name": name}}
        await cluster.driver.call("POST", "/api/v1/namespaces", body, missing=True)
    ours = Contender("first", OURS).running_only(_ALL)
    with ours.running(cluster.kubeconfig, logs / "first.log") as running:
        await _create(cluster.driver, ["original"])
        await _until_complete(cluster.driver, {"original"}, running)
        await _until_at_rest(running)
    await cluster.copy_workload("original", copies, nodes)


async def _start(cluster: BenchCluster, running: Running) -> Figures:
    """Wait until a manager has brought a new workload to completion, and rests."""
    await _create(cluster.driver, ["first"])
    await _until_complete(cluster.driver, {"first"}, running)
    at_rest = await _until_at_rest(running)
    counts = await cluster.counts() or {}
    verbs = ("POST", "PATCH", "PUT", "DELETE")
    return {
        START: at_rest,
        "start: peak, MB": running.usage().peak,
        "start: writes": float(sum(counts.get(each, 0) for each in verbs)),
    }


async def _rest(running: Running) -> float:
    """Return the share of a core that a manager uses while only nodes report."""
    await asyncio.sleep(SETTLE)
    before = running.usage().cpu
    await asyncio.sleep(_REST)
    return (running.usage().cpu - before) / _REST


async def _change(cluster: BenchCluster, running: Running, rest: float) -> Figures:
    """Create workloads, and delete them; the CPU time at rest does not count."""
    driver = cluster.driver
    names = [f"new-{each:03}" for each in range(_CHANGED // PODS_OF_A_WORKLOAD)]
    figures = {}
    loop = asyncio.get_running_loop()
    for step in (CREATE, DELETE):
        before, began = running.usage().cpu, loop.time()
        if step == CREATE:
            await _create(driver, names)
            await _until_complete(driver, set(names), running)
        else:
            await _delete(driver, names)
            await checked(_until_gone(driver), running.check)
        after = await _until_at_rest(running)
        spent = after - before - rest * (loop.time() - began)
        figures[step] = spent * 1000 / _CHANGED
    return figures


async def _create(driver: Driver, names: list[str]) -> None:
    # One after the other, on one connection: the development cluster takes long for a
    # service among thousands, and accepts no connection meanwhile.
    for each in names:
        await driver.create(SERVICES, each, PODS_OF_A_WORKLOAD)
    await asyncio.gather(
        *(driver.create(_SIZED, each, PODS_OF_A_WORKLOAD) for each in names)
    )


async def _until_complete(driver: Driver, names: set[str], running: Running) -> None:
    """Wait until the deployments are complete and the slices have their pods."""
    await driver.until_complete(_SIZED, names, running.check)
    await checked(_until_served(driver, names), running.check)


async def _until_served(driver: Driver, names: set[str]) -> None:
    for name in sorted(names):
        selector = f"labelSelector=kubernetes.io/service-name={name}"
        while True:
            listed = await driver.call("GET", f"{SLICES}?{selector}")
            if _ready_endpoints(listed) == PODS_OF_A_WORKLOAD:
                break
            await asyncio.sleep(0.2)


def _ready_endpoints(listed: JSON) -> int:
    return sum(
        bool(each["conditions"].get("ready"))
        for endpoint_slice in listed["items"]
        for each in endpoint_slice.get("endpoints") or ()
    )


async def _delete(driver: Driver, names: list[str]) -> None:
    """Delete the deployments and services; the garbage collector deletes the rest."""
    query = "propagationPolicy=Background"
    for work in (_SIZED, SERVICES):
        await asyncio.gather(
            *(driver.call("DELETE", f"{work.path}/{each}?{query}") for each in names)
        )


async def _until_gone(driver: Driver) -> None:
    path = f"{PODS}?labelSelector=tier=new&limit=1"
    while True:
        if not (await driver.call("GET", path))["items"]:
            return
        await asyncio.sleep(0.5)


async def _until_at_rest(running: Running) -> float:
    """Wait until a manager uses little CPU for ten seconds; return the CPU seconds."""
    calm = 0
    while calm < 2:
        before = running.usage().cpu
        await asyncio.sleep(_WINDOW)
        calm = calm + 1 if running.usage().cpu - before < _BUSY * _WINDOW else 0
    return running.usage().cpu


def _deployment(name: str, size: int) -> JSON:
    """Return a deployment whose pods have 3.5 kB; its name begins with their tier.

    They are those of `idle_pod`, with requests that any node can carry.
    """
    labels = {"app": name, "tier": name.partition("-")[0]}
    spec: dict[str, Any] = dict(idle_pod(0)["spec"])
    del spec["nodeName"]
    requests = {"requests": {"cpu": "1m", "memory": "1Mi"}}
    spec["containers"] = [
        {**each, "resources": requests} for each in spec["containers"]
    ]
    spec["terminationGracePeriodSeconds"] = 0
    template = {"metadata": {"labels": labels}, "spec": spec}
    selector = {"matchLabels": labels}
    return {
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": template, "replicas": size},
    }


_SIZED: Final = Work(_ALL, DEPLOYMENTS.path, _deployment, DEPLOYMENTS.is_complete)
