"""Benchmark of many nodes that do nothing but renew themselves."""

import asyncio
from typing import Final

from tests.benchmarks.clusters import cluster_for
from tests.benchmarks.contenders import Contender
from tests.benchmarks.driver import DriverError
from tests.benchmarks.measuring import SETTLE, Figures, Options, until_calm

_SECONDS: Final = 30.0
"""The seconds of a measurement: each node renews its lease three times."""

_WARM_UP: Final = 10.0
"""Seconds in which each node renews its lease once before that."""


async def heartbeats(contender: Contender, options: Options) -> Figures:
    """Run the node lifecycle controller beside nodes that are all alive.

    Each renews its lease every ten seconds, and posts its status every five minutes.
    There is nothing to write.
    """
    if options.kubeconfig is not None:
        msg = "heartbeats needs the cluster of its own; leave out --kubeconfig"
        raise DriverError(msg)
    contender = contender.running_only("node-lifecycle-controller")
    log = options.logs / f"{contender.name}.log"
    async with cluster_for(None, 0) as cluster:
        await cluster.add_renewing(options.renewing_nodes)
        with contender.running(cluster.kubeconfig, log) as running:
            await until_calm(running)
            await cluster.renew(_WARM_UP)
            await cluster.counts()
            before = running.usage()
            done = await cluster.renew(_SECONDS)
            after, counts = running.usage(), await cluster.counts() or {}
            await asyncio.sleep(SETTLE)
            running.check()
    cpu = after.cpu - before.cpu
    beats = done["leases"] + done["statuses"]
    writes = sum(counts.get(each, 0) for each in ("PATCH", "PUT", "POST", "DELETE"))
    return {
        "heartbeats: CPU a second, ms": 1000 * cpu / done["seconds"],
        "heartbeats: CPU each, µs": 1e6 * cpu / beats,
        "heartbeats: a second": beats / done["seconds"],
        "heartbeats: resident, MB": after.resident,
        "heartbeats: resident more, MB": after.resident - before.resident,
        "heartbeats: writes": float(writes),
    }
