"""Benchmark of the start on a cluster whose volumes are attached already."""

import asyncio
import time
from typing import Final

from tests.benchmarks.clusters import cluster_for
from tests.benchmarks.contenders import Contender
from tests.benchmarks.driver import DriverError
from tests.benchmarks.measuring import SETTLE, Figures, Options, until_calm
from tests.benchmarks.metrics import read_metrics, token_in

_VOLUMES: Final = "attachdetach_controller_total_volumes"
"""Volumes that are wanted, and those that are attached: each counts twice."""


async def attachments(contender: Contender, options: Options) -> Figures:
    """Start the attach-detach controller: it looks at all nodes, and writes nothing."""
    if options.kubeconfig is not None:
        msg = "attachments needs the cluster of its own; leave out --kubeconfig"
        raise DriverError(msg)
    contender = contender.running_only("persistentvolume-attach-detach-controller")
    log = options.logs / f"{contender.name}.log"
    async with cluster_for(None, 0, nodes=0) as cluster:
        await cluster.add_attached(options.attachments)
        await cluster.counts()
        started = time.monotonic()
        with contender.running(cluster.kubeconfig, log) as running:
            await until_calm(running)
            wall, used = time.monotonic() - started, running.usage()
            await asyncio.sleep(SETTLE)
            running.check()
            counts = await cluster.counts() or {}
            metrics = await read_metrics(running.port, token_in(cluster.kubeconfig))
    writes = sum(counts.get(each, 0) for each in ("PATCH", "PUT", "DELETE"))
    known = {} if _VOLUMES not in metrics else {"attachments: known": metrics[_VOLUMES]}
    return known | {
        "attachments: wall, s": wall,
        "attachments: CPU, s": used.cpu,
        "attachments: CPU each, µs": 1e6 * used.cpu / options.attachments,
        "attachments: resident, MB": used.resident,
        "attachments: writes": float(writes),
    }
