"""A proxy that closes connections that were idle for twelve seconds."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.robustness.cluster import FaultyCluster, faulty_cluster
from tests.robustness.daemon import run_daemon
from tests.robustness.objects import (
    CONFIG_MAPS,
    deployments,
    end_a_job,
    owned,
    replication_controller,
    workload,
)
from tests.robustness.proxy import CuttingProxy
from tests.robustness.situation import now, on_uvloop, seconds_until, until_time

pytestmark = pytest.mark.nightly

IDLE = 12.0
SEEN = 1.0
LIMIT = 30.0
ROUNDS = 3
BETWEEN = 2.7
"""Seconds between two changes of one round; each change is of another resource.

Six changes take sixteen seconds, so each watch has been idle for longer than the
proxy allows when the next change of its resource comes.
"""

RENEW_DEADLINE = 10.0

Change = Callable[[FaultyCluster, str], Awaitable[Callable[[], bool]]]
"""Makes a change with a name; returns a check whether the daemon has acted on it."""


async def new_namespace(cluster: FaultyCluster, name: str) -> Callable[[], bool]:
    await cluster.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return lambda: cluster.has("serviceaccounts", name, "default")


async def new_deployment(cluster: FaultyCluster, name: str) -> Callable[[], bool]:
    await cluster.create(deployments("default"), workload(name, 0))
    return lambda: any(
        each["metadata"]["name"].startswith(name)
        for each in cluster.stored("replicasets.apps", "default")
    )


async def new_controller(cluster: FaultyCluster, name: str) -> Callable[[], bool]:
    path = "/api/v1/namespaces/default/replicationcontrollers"
    await cluster.create(path, replication_controller(name, 1))
    return lambda: any(
        each["metadata"]["name"].startswith(name)
        for each in cluster.stored("pods", "default")
    )


async def ended_job(cluster: FaultyCluster, name: str) -> Callable[[], bool]:
    await end_a_job(cluster, name)
    return lambda: not cluster.has("jobs.batch", "default", name)


async def new_node(cluster: FaultyCluster, name: str) -> Callable[[], bool]:
    await cluster.create("/api/v1/nodes", {"metadata": {"name": name}})
    return lambda: any(
        "node.alpha.kubernetes.io/ttl" in each["metadata"].get("annotations", {})
        for each in cluster.stored("nodes")
        if each["metadata"]["name"] == name
    )


async def garbage(cluster: FaultyCluster, name: str) -> Callable[[], bool]:
    await cluster.create(CONFIG_MAPS, owned(name, "ConfigMap", "vanished"))
    return lambda: not cluster.has("configmaps", "default", name)


CHANGES: dict[str, Change] = {
    "namespace": new_namespace,
    "deployment": new_deployment,
    "controller": new_controller,
    "job": ended_job,
    "node": new_node,
    "garbage": garbage,
}


async def act_at(cluster: FaultyCluster, when: float, change: str, name: str) -> float:
    """Make a change at a time; return the seconds until the daemon has acted on it."""
    await until_time(when)
    has_acted = await CHANGES[change](cluster, name)
    return await seconds_until(has_acted, LIMIT)


async def waits_of_changes(cluster: FaultyCluster) -> dict[str, list[float]]:
    """Make changes of each resource in turn; return the seconds that each waited."""
    began = now() + IDLE + 2
    tasks = {
        change: [
            asyncio.create_task(
                act_at(
                    cluster,
                    began + BETWEEN * (turn * len(CHANGES) + number),
                    change,
                    f"robust-{change}-{turn}",
                )
            )
            for turn in range(ROUNDS)
        ]
        for number, change in enumerate(CHANGES)
    }
    return {change: await asyncio.gather(*each) for change, each in tasks.items()}


def longest_gap(cluster: FaultyCluster) -> float:
    """Return the longest time in seconds for which a resource had no open watch."""
    ends: dict[tuple[str, ...], float] = {}
    gaps = [0.0]
    for each in cluster.requests:
        if not each.is_watch:
            continue
        selectors = sorted(s for s in each.query.split("&") if "Selector=" in s)
        watch = (each.path, *selectors)
        if ended_at := ends.get(watch):
            gaps.append(each.at - ended_at)
        ends[watch] = each.ended_at
    return max(gaps)


def through(kubeconfig: dict[str, Any], port: int) -> dict[str, Any]:
    """Return the kubeconfig with the port of the proxy as the server's port."""
    changed = copy.deepcopy(kubeconfig)
    changed["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    return changed


@on_uvloop
async def test_changes_are_seen_at_once_behind_a_proxy_that_cuts_idle_streams(
    tmp_path: Path, figures: dict[str, object]
) -> None:
    async with faulty_cluster() as cluster:
        proxy = CuttingProxy(int(cluster.url.rpartition(":")[2]), IDLE)
        async with (
            proxy.running() as port,
            run_daemon(through(cluster.kubeconfig, port), tmp_path) as manager,
        ):
            await manager.until_it_leads()
            waits = await waits_of_changes(cluster)
            figures.update(waits)
            figures["connections cut"] = proxy.cuts
            figures["longest without a renewal"] = cluster.longest_without_renewal()
            figures["longest time without a watch"] = gap = longest_gap(cluster)
            assert proxy.cuts > len(CHANGES) * ROUNDS
            assert {
                change: each for change, each in waits.items() if max(each) > SEEN
            } == {}
            assert gap <= SEEN
            assert cluster.longest_without_renewal() < RENEW_DEADLINE
            assert manager.is_running
