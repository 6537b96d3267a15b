"""Benchmark of disruption budgets: many in one namespace, whose pods change."""

import asyncio
import time
from typing import Final

from tests.benchmarks.clusters import BenchCluster, cluster_for
from tests.benchmarks.contenders import Contender, Running
from tests.benchmarks.driver import PODS, checked
from tests.benchmarks.kinds import BUDGETS
from tests.benchmarks.measuring import SETTLE, Figures, Options, per_request

_PODS: Final = 10_000
"""Pods of the namespace."""

_EACH: Final = 20
"""Pods of each budget."""

_CHANGES: Final = 100
"""Pods that stop being ready, and get ready again."""

_INTERVAL: Final = 0.1
"""Seconds between two changes, so that each is a change of its own."""


async def budgets(contender: Contender, options: Options) -> Figures:
    """Count the pods of many budgets; then change pods, one at a time."""
    contender = contender.running_only("disruption-controller")
    pods = options.sized(_PODS).idle_pods or 0
    apps = max(1, pods // _EACH)
    log = options.logs / f"{contender.name}.log"
    async with cluster_for(options.kubeconfig, pods, apps=apps) as cluster:
        create = cluster.driver.create
        names = [f"idle-{number}" for number in range(apps)]
        await asyncio.gather(*(create(BUDGETS, name, 1) for name in names))
        started = time.monotonic()
        with contender.running(cluster.kubeconfig, log) as running:
            await checked(_until_healthy(cluster, pods), running.check)
            figures = {
                "count: wall, s": time.monotonic() - started,
                "count: CPU, s": running.usage().cpu,
            }
            await asyncio.sleep(SETTLE)
            await cluster.counts()
            before = running.usage()
            changes = await _flap(cluster, running, pods)
            cpu = running.usage().cpu - before.cpu
            counts = await cluster.counts() or {}
    figures["change: CPU, ms"] = 1000 * cpu / changes
    return figures | per_request("pod", counts, changes)


async def _flap(cluster: BenchCluster, running: Running, pods: int) -> int:
    """Make pods unready one by one, then ready again; return how many changes."""
    listed = await cluster.driver.call("GET", f"{PODS}?limit={_CHANGES}")
    names = [each["metadata"]["name"] for each in listed["items"]]
    for status, left in (("False", pods - len(names)), ("True", pods)):
        for name in names:
            body = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
            await cluster.driver.call("PATCH", f"{PODS}/{name}/status", body)
            await asyncio.sleep(_INTERVAL)
        await checked(_until_healthy(cluster, left), running.check)
    return 2 * len(names)


async def _until_healthy(cluster: BenchCluster, wanted: int) -> None:
    """Wait until the budgets count this number of healthy pods."""
    while True:
        listed = await cluster.driver.call("GET", BUDGETS.path)
        statuses = [each.get("status", {}) for each in listed["items"]]
        if sum(each.get("currentHealthy", 0) for each in statuses) == wanted:
            return
        await asyncio.sleep(0.2)
