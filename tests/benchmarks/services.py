"""Benchmarks of services: pods that come and go, and a start on many services."""

import asyncio
import time
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.benchmarks.clusters import BenchCluster, cluster_for
from tests.benchmarks.contenders import Contender, Running
from tests.benchmarks.driver import PODS, checked
from tests.benchmarks.kinds import SERVICES, SLICES
from tests.benchmarks.measuring import SETTLE, Figures, Options, per_request, until_calm

_CONTROLLER: Final = "endpointslice-controller"
_PODS: Final = 5_000
"""Pods of the service whose pods come and go."""

_CHANGES: Final = 100
"""Pods that stop being ready, and get ready again."""

_INTERVAL: Final = 0.1
"""Seconds between two changes, so that each is a change of its own."""

_EACH: Final = 10
"""Pods of each of many services."""


async def service_churn(contender: Contender, options: Options) -> Figures:
    """Change the readiness of pods of one large service, one pod at a time."""
    contender = contender.running_only(_CONTROLLER)
    pods = options.sized(_PODS).idle_pods or 0
    log = options.logs / f"{contender.name}.log"
    async with cluster_for(options.kubeconfig, pods, apps=1) as cluster:
        await cluster.driver.create(SERVICES, "idle-0", 0)
        with contender.running(cluster.kubeconfig, log) as running:
            await checked(_until_ready(cluster, pods), running.check)
            await asyncio.sleep(SETTLE)
            await cluster.counts()
            before = running.usage()
            await _flap(cluster, running, pods)
            cpu = running.usage().cpu - before.cpu
            counts = await cluster.counts() or {}
    figures = {"churn: CPU a change, ms": 1000 * cpu / (2 * _CHANGES)}
    return figures | per_request("churn", counts, 2 * _CHANGES)


async def _flap(cluster: BenchCluster, running: Running, pods: int) -> None:
    """Make pods unready one by one, then ready again, and wait for both."""
    listed = await cluster.driver.call("GET", f"{PODS}?limit={_CHANGES}")
    names = [each["metadata"]["name"] for each in listed["items"]]
    for status, left in (("False", pods - len(names)), ("True", pods)):
        for name in names:
            condition = {"type": "Ready", "status": status}
            body = {"status": {"conditions": [condition]}}
            await cluster.driver.call("PATCH", f"{PODS}/{name}/status", body)
            await asyncio.sleep(_INTERVAL)
        await checked(_until_ready(cluster, left), running.check)


async def many_services(contender: Contender, options: Options) -> Figures:
    """Start a manager on a cluster with many services that have no slices yet."""
    contender = contender.running_only(_CONTROLLER)
    pods = options.services * _EACH
    log = options.logs / f"{contender.name}.log"
    apps = options.services
    async with cluster_for(options.kubeconfig, pods, apps=apps) as cluster:
        names = [f"idle-{number}" for number in range(apps)]
        create = cluster.driver.create
        await asyncio.gather(*(create(SERVICES, name, _EACH) for name in names))
        await cluster.counts()
        started = time.monotonic()
        with contender.running(cluster.kubeconfig, log) as running:
            await checked(_until_ready(cluster, pods), running.check)
            wall = time.monotonic() - started
            await until_calm(running)
            usage, counts = running.usage(), await cluster.counts() or {}
    figures = {
        "services: wall, s": wall,
        "services: CPU, s": usage.cpu,
        "services: resident, MB": usage.resident,
    }
    for what, count in sorted(counts.items()):
        figures[f"services: {what}"] = count
    return figures


async def _until_ready(cluster: BenchCluster, wanted: int) -> None:
    """Wait until the slices have this number of ready endpoints."""
    while True:
        listed = await cluster.driver.call("GET", SLICES)
        if sum(map(_ready_endpoints, listed["items"])) == wanted:
            return
        await asyncio.sleep(0.2)


def _ready_endpoints(endpoint_slice: JSON) -> int:
    return sum(
        each["conditions"].get("ready", False)
        for each in endpoint_slice.get("endpoints") or ()
    )
