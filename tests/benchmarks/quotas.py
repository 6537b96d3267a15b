"""Benchmark of quotas: a recount of many pods, and what each pod that goes costs."""

import asyncio
import time
from typing import Final

from controller_manager.api.quantity import Quantity
from tests.benchmarks.clusters import BenchCluster, cluster_for
from tests.benchmarks.contenders import Contender
from tests.benchmarks.driver import PODS, checked
from tests.benchmarks.kinds import QUOTAS
from tests.benchmarks.measuring import SETTLE, Figures, Options, per_request

_PODS: Final = 10_000
"""Pods that are counted."""

_CHANGES: Final = 50
"""Pods that are deleted."""

_INTERVAL: Final = 0.2
"""Seconds between two deletions, so that each is a change of its own."""


async def quota_recount(contender: Contender, options: Options) -> Figures:
    """Count the pods of a namespace with a quota; then pods go, one at a time."""
    contender = contender.running_only("resourcequota-controller")
    pods = options.sized(_PODS).idle_pods or 0
    log = options.logs / f"{contender.name}.log"
    async with cluster_for(options.kubeconfig, pods) as cluster:
        await cluster.driver.create(QUOTAS, "everything", 0)
        await cluster.counts()
        started = time.monotonic()
        with contender.running(cluster.kubeconfig, log) as running:
            await checked(_until_counted(cluster, pods), running.check)
            figures = {
                "recount: wall, s": time.monotonic() - started,
                "recount: CPU, s": running.usage().cpu,
            }
            await asyncio.sleep(SETTLE)
            await cluster.counts()
            before = running.usage()
            left = pods - await _delete_some(cluster)
            await checked(_until_counted(cluster, left), running.check)
            cpu = running.usage().cpu - before.cpu
            counts = await cluster.counts() or {}
    figures["deletion: CPU, ms"] = 1000 * cpu / _CHANGES
    return figures | per_request("deletion", counts, _CHANGES)


async def _delete_some(cluster: BenchCluster) -> int:
    """Delete some pods, one at a time; return how many."""
    listed = await cluster.driver.call("GET", f"{PODS}?limit={_CHANGES}")
    for each in listed["items"]:
        name = each["metadata"]["name"]
        await cluster.driver.call("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
        await asyncio.sleep(_INTERVAL)
    return len(listed["items"])


async def _until_counted(cluster: BenchCluster, wanted: int) -> None:
    """Wait until the quota says that this number of pods is used."""
    canonical = str(Quantity.of(wanted))  # 2000 pods are "2k"
    while True:
        quota = await cluster.driver.call("GET", f"{QUOTAS.path}/everything")
        if quota["status"].get("used", {}).get("pods") == canonical:
            return
        await asyncio.sleep(0.2)
