"""A namespace in which each create takes ten seconds."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from tests.robustness.cluster import Fault, FaultyCluster, faulty_cluster
from tests.robustness.daemon import manager_of
from tests.robustness.objects import deployments, replica_sets, workload
from tests.robustness.situation import on_uvloop, seconds_until, until_time

pytestmark = pytest.mark.nightly

SLOW = 10.0
PATIENCE = 60.0
"""Seconds within which all pods of the slow namespace must exist."""

QUICK = 1.0
FLAGS = ("--kube-api-qps=200", "--kube-api-burst=200")


def slow_creates(namespace: str) -> Fault:
    """Return a fault: a webhook that times out and is then ignored."""
    path = f"/api/v1/namespaces/{namespace}/pods"

    async def fault(request: web.BaseRequest) -> None:
        if request.method == "POST" and request.path == path:
            await asyncio.sleep(SLOW)

    return fault


async def seconds_of_a_replica_set(cluster: FaultyCluster, name: str) -> float:
    """Return how long a replica set waits for its two pods."""
    before = len(cluster.stored("pods", "quick"))
    await cluster.create(replica_sets("quick"), workload(name, 2))
    return await seconds_until(
        lambda: len(cluster.stored("pods", "quick")) == before + 2, 20
    )


async def seconds_of_a_deployment(cluster: FaultyCluster, name: str) -> float:
    """Return how long a deployment waits for its replica set."""
    before = len(cluster.stored("replicasets.apps", "quick"))
    await cluster.create(deployments("quick"), workload(name, 0))
    return await seconds_until(
        lambda: len(cluster.stored("replicasets.apps", "quick")) == before + 1, 20
    )


async def create_slow(cluster: FaultyCluster, count: int, replicas: int) -> None:
    for number in range(count):
        slow = workload(f"slow-{number}", replicas)
        await cluster.create(replica_sets("slow"), slow)


async def pods_within_patience(
    cluster: FaultyCluster, began: float, wanted: int, figures: dict[str, object]
) -> int:
    """Wait for the pods of the slow namespace; return how many there are."""
    loop = asyncio.get_running_loop()
    left = PATIENCE - (loop.time() - began)
    await seconds_until(lambda: len(cluster.stored("pods", "slow")) >= wanted, left)
    pods = len(cluster.stored("pods", "slow"))
    figures[f"pods in the slow namespace, of {wanted}"] = pods
    figures["seconds"] = round(loop.time() - began, 1)
    return pods


def test_pods_come_although_each_create_takes_ten_seconds(
    tmp_path: Path, figures: dict[str, object]
) -> None:
    """Seven pods of each replica set: batches of 1, 2 and 4, so half a minute.

    The renew deadline of the lease, ten seconds, must not cancel a write: the
    lease is renewed meanwhile.
    """

    async def situation() -> None:
        async with (
            faulty_cluster("slow", "quick") as cluster,
            manager_of(cluster, tmp_path, *FLAGS) as manager,
        ):
            cluster.faults.append(slow_creates("slow"))
            await manager.until_it_leads()
            began = asyncio.get_running_loop().time()
            await create_slow(cluster, 3, 7)
            same, other = [], []
            for turn in range(8):
                await until_time(began + 1 + 3.3 * turn)
                same.append(await seconds_of_a_replica_set(cluster, f"same-{turn}"))
                other.append(await seconds_of_a_deployment(cluster, f"other-{turn}"))
            pods = await pods_within_patience(cluster, began, 21, figures)
            figures["slowest pods of the same controller"] = max(same)
            figures["slowest replica set of another controller"] = max(other)
            figures["longest without a renewal"] = cluster.longest_without_renewal()
            assert pods == 21
            assert max(same) <= QUICK
            assert max(other) <= QUICK
            assert manager.is_running
            assert cluster.longest_without_renewal() < SLOW

    on_uvloop(situation)


def test_many_slow_creates_of_one_controller_hold_up_no_other(
    tmp_path: Path, figures: dict[str, object]
) -> None:
    """Forty at once: an early version could not send more in all controllers."""

    async def situation() -> None:
        flags = (*FLAGS, "--concurrent-replicaset-syncs=40")
        async with (
            faulty_cluster("slow", "quick") as cluster,
            manager_of(cluster, tmp_path, *flags) as manager,
        ):
            cluster.faults.append(slow_creates("slow"))
            await manager.until_it_leads()
            began = asyncio.get_running_loop().time()
            await create_slow(cluster, 40, 1)
            other = []
            for turn in range(3):
                await until_time(began + 1 + 3 * turn)
                other.append(await seconds_of_a_deployment(cluster, f"other-{turn}"))
            pods = await pods_within_patience(cluster, began, 40, figures)
            figures["slowest replica set of another controller"] = max(other)
            assert max(other) <= QUICK
            assert pods == 40
            assert manager.is_running

    on_uvloop(situation)
