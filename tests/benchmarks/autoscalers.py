"""Benchmark of autoscalers that look at the CPU usage of their pods."""

import asyncio
from typing import Final

from tests.benchmarks.clusters import BenchCluster, cluster_for
from tests.benchmarks.contenders import Contender
from tests.benchmarks.driver import checked
from tests.benchmarks.kinds import AUTOSCALERS, DEPLOYMENTS
from tests.benchmarks.measuring import SETTLE, Figures, Options, per_request

_EACH: Final = 2
"""Pods of each deployment."""

_SECONDS: Final = 30.0
"""The seconds of a measurement: each autoscaler is synced twice."""


async def autoscalers(contender: Contender, options: Options) -> Figures:
    """Run many autoscalers that have nothing to change."""
    contender = contender.running_only("horizontal-pod-autoscaler-controller")
    apps = options.autoscalers
    log = options.logs / f"{contender.name}.log"
    async with cluster_for(options.kubeconfig, apps * _EACH, apps=apps) as cluster:
        create = cluster.driver.create
        for number in range(apps):
            await create(DEPLOYMENTS, f"idle-{number}", _EACH)
            await create(AUTOSCALERS, f"idle-{number}", _EACH)
        with contender.running(cluster.kubeconfig, log) as running:
            await checked(_until_measured(cluster), running.check)
            await asyncio.sleep(SETTLE)
            await cluster.counts()
            before = running.usage()
            await asyncio.sleep(_SECONDS)
            usage, counts = running.usage(), await cluster.counts() or {}
    return {
        "autoscalers: CPU a second, ms": 1000 * (usage.cpu - before.cpu) / _SECONDS,
        "autoscalers: resident, MB": usage.resident,
        **per_request("autoscalers", counts, _SECONDS, "second"),
    }


async def _until_measured(cluster: BenchCluster) -> None:
    """Wait until all autoscalers have a condition about their metrics."""
    while True:
        listed = await cluster.driver.call("GET", AUTOSCALERS.path)
        if all(map(AUTOSCALERS.is_complete, listed["items"])):
            return
        await asyncio.sleep(0.5)
