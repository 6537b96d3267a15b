"""Missed heartbeats do not count as silence of a node."""

import asyncio

import pytest

from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import LoopClock
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import EPOCH, TOKEN, Cluster
from tests.controllers.nodes.nodelifecycle.fixtures import (
    add_node,
    heartbeats,
    lifecycle_config,
    post,
    renew,
    statuses,
    taints,
)

pytestmark = pytest.mark.looptime


class SuspendedClock(LoopClock):
    """The clock of a machine that may be suspended: all its times go on meanwhile."""

    suspended = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.suspended


class Reads(InMemoryTransport):
    """Counts the reads of single leases."""

    count = 0

    async def request(self, request: Request) -> Response:
        self.count += any("metadata.name=" in value for _, value in request.query)
        return await super().request(request)


async def test_a_machine_that_was_suspended_finds_no_node_silent(
    cluster: Cluster,
) -> None:
    """The process has read nothing for five minutes, but does not read each lease now.

    With thousands of nodes that would be thousands of requests. The time of the pause
    does not count as silence, the time around it does.
    """
    names = [f"n{number}" for number in range(5)]
    for name in names:
        add_node(cluster, name)
    clock = SuspendedClock(EPOCH)
    reads = Reads(cluster.server, TOKEN)
    async with (
        heartbeats(cluster, *names, period=4.0) as alive,
        cluster.manager(lifecycle_config(), reads, clock=clock) as recording,
    ):
        await asyncio.sleep(5)
        before = reads.count
        clock.suspended += 300
        await asyncio.sleep(20)
        assert recording.writes == []
        assert reads.count == before
        alive.clear()
        await asyncio.sleep(5)
        clock.suspended += 300
        await asyncio.sleep(5)
        # The status and the NoSchedule taint of each.
        assert len(recording.writes) == 2 * len(names)


async def test_a_new_leader_believes_the_lease_of_a_node_that_never_posts(
    cluster: Cluster,
) -> None:
    """The time of the renewal is unknown; it may have been right now."""
    cluster.add("Node", "a")
    add_node(cluster, "ok")
    async with heartbeats(cluster, "ok"):
        await asyncio.sleep(60)
        await renew(cluster, "a")
        async with cluster.manager(lifecycle_config()) as recording:
            await asyncio.sleep(4)
            assert [each.path for each in recording.writes] == []
            await asyncio.sleep(4)
            assert (await statuses(cluster, "a"))["Ready"] == "Unknown"


async def test_after_a_cluster_was_down_each_node_has_a_new_grace_period(
    cluster: Cluster,
) -> None:
    """The network may have caused the silence; a node that posted False also gets one.

    A node is seen at 6 s, so it would count as dead at 13 s; the cluster recovers at 10
    s.
    """
    for name in "abc":
        add_node(cluster, name)
    async with cluster.manager(lifecycle_config()):
        await asyncio.sleep(5)
        await post(cluster, "a", Ready="False")
        await asyncio.sleep(4)
        await post(cluster, "c")
        async with heartbeats(cluster, "c"):
            await asyncio.sleep(6)
            assert (await statuses(cluster, "a"))["Ready"] == "False"
            await asyncio.sleep(4)
            assert (await statuses(cluster, "a"))["Ready"] == "Unknown"


async def test_a_kubelet_that_posts_unknown_is_believed(cluster: Cluster) -> None:
    """As upstream: it renews its lease, and its pods are evicted nevertheless."""
    add_node(cluster, "ok")
    add_node(cluster, "a")
    async with heartbeats(cluster, "ok", "a"), cluster.manager(lifecycle_config()):
        await asyncio.sleep(3)
        await post(cluster, "a", Ready="Unknown")
        await asyncio.sleep(5)
        assert sorted(await taints(cluster, "a")) == [
            "unreachable:NoExecute",
            "unreachable:NoSchedule",
        ]
