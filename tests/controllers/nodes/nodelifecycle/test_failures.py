"""The health of nodes while writes or connections fail."""

import asyncio
from datetime import UTC, datetime

import pytest

from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.core.v1 import NODES
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.errors import RequestTimeout
from controller_manager.client.rest.transport import (
    Request,
    Response,
    Stream,
    Transport,
)
from controller_manager.clock import LoopClock
from controller_manager.controllers.nodes.nodelifecycle.taints import EvictionQueue
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import EPOCH, TOKEN, Cluster
from tests.controllers.nodes.nodelifecycle.fixtures import (
    add_node,
    add_pod,
    all_taints,
    events,
    heartbeats,
    lifecycle_config,
    post,
    ready_pods,
    renew,
    statuses,
    taints,
)
from tests.controllers.responses import refusal

UNREACHABLE = ["unreachable:NoSchedule", "unreachable:NoExecute"]


class Fragile:
    """A transport that can be cut, and that can refuse some writes."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.is_cut = False
        self.refused: dict[str, Response] = {}
        self.seconds_of_a_read = 0.0
        self.sent: list[str] = []

    @property
    def host(self) -> str:
        return self._inner.host

    async def request(self, request: Request) -> Response:
        if self.is_cut:
            await asyncio.sleep(1)
            msg = "cut"
            raise RequestTimeout(msg)
        if request.method == "PATCH":
            self.sent.append(request.path)
            if request.path in self.refused:
                return self.refused.pop(request.path)
        if ("fieldSelector", "metadata.name=a") in request.query:
            await asyncio.sleep(self.seconds_of_a_read)
        return await self._inner.request(request)

    async def stream(self, request: Request) -> Stream:
        return await self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.looptime
async def test_a_manager_that_reaches_no_api_server_kills_no_node(
    cluster: Cluster,
) -> None:
    names = [f"n{number}" for number in range(20)]
    for name in names:
        add_node(cluster, name)
    fragile = Fragile(cluster.transport)
    async with (
        heartbeats(cluster, *names) as alive,
        cluster.manager(lifecycle_config(), fragile),
    ):
        await asyncio.sleep(5)
        fragile.is_cut = True
        alive.clear()
        await asyncio.sleep(30)
        alive.update(names)
        await asyncio.sleep(3)
        fragile.is_cut = False
        await asyncio.sleep(10)
        assert (await all_taints(cluster)) == {name: [] for name in names}
    assert fragile.sent == []


@pytest.mark.looptime
@pytest.mark.parametrize(
    "answer",
    [
        refusal(409, "Conflict"),
        refusal(500, "InternalError"),
        refusal(403, "Forbidden"),
    ],
    ids=["conflict", "error", "forbidden"],
)
@pytest.mark.parametrize("path", ["/nodes/a", "/nodes/a/status", "/pods/p/status"])
async def test_a_refused_write_is_tried_again(
    cluster: Cluster, path: str, answer: Response
) -> None:
    """Any write may be refused; the final state is the same."""
    add_node(cluster, "ok")
    add_node(cluster, "a")
    add_pod(cluster, "p", "a")
    where = "/api/v1/namespaces/default" if "pods" in path else "/api/v1"
    fragile = Fragile(cluster.transport)
    async with heartbeats(cluster, "ok"), cluster.manager(lifecycle_config(), fragile):
        fragile.refused[f"{where}{path}"] = answer
        await asyncio.sleep(20)
        assert (await statuses(cluster, "a"))["Ready"] == "Unknown"
        assert sorted(await taints(cluster, "a")) == sorted(UNREACHABLE)
        assert await ready_pods(cluster) == {"p": "False"}
    assert fragile.refused == {}
    assert len(fragile.sent) == 5


@pytest.mark.looptime
async def test_a_taint_is_swapped_in_the_same_check_if_the_node_has_changed(
    cluster: Cluster,
) -> None:
    add_node(cluster, "ok")
    add_node(cluster, "a")
    await post(cluster, "a", Ready="False")
    fragile = Fragile(cluster.transport)
    config = lifecycle_config(period=30.0)
    async with heartbeats(cluster, "ok"), cluster.manager(config, fragile):
        await asyncio.sleep(29)
        assert "not-ready:NoExecute" in await taints(cluster, "a")
        fragile.refused["/api/v1/nodes/a"] = refusal(409, "Conflict")
        await asyncio.sleep(2)
        assert sorted(await taints(cluster, "a")) == sorted(UNREACHABLE)
    assert fragile.refused == {}


@pytest.mark.looptime
async def test_a_lease_whose_times_go_back_is_a_heartbeat(cluster: Cluster) -> None:
    add_node(cluster, "a")
    add_node(cluster, "b")
    async with (
        heartbeats(cluster, "a", "b") as alive,
        cluster.manager(lifecycle_config()) as recording,
    ):
        await asyncio.sleep(5)
        alive.discard("a")
        for second in range(20, 0, -1):
            patch = {"spec": {"renewTime": f"2025-01-01T00:00:{second:02}.000000Z"}}
            where = ("kube-node-lease", "a")
            await cluster.client.patch(LEASES, *where, patch, PatchType.MERGE)
            await asyncio.sleep(2)
        assert recording.writes == []


@pytest.mark.looptime
async def test_the_only_node_of_a_zone_may_be_excluded_from_its_count(
    cluster: Cluster,
) -> None:
    labels = {"topology.kubernetes.io/zone": "z"}
    add_node(cluster, "ok")
    add_node(cluster, "a", labels=labels)
    async with heartbeats(cluster, "ok", "a"), cluster.manager(lifecycle_config()):
        await asyncio.sleep(3)
        excluded = {
            "metadata": {"labels": {"node.kubernetes.io/exclude-disruption": ""}}
        }
        await cluster.client.patch(NODES, "", "a", excluded)
        await post(cluster, "a", Ready="False")
        await asyncio.sleep(5)
        assert await taints(cluster, "a") == [
            "not-ready:NoSchedule",
            "not-ready:NoExecute",
        ]


@pytest.mark.looptime
async def test_a_node_that_is_created_again_is_a_new_one(cluster: Cluster) -> None:
    add_node(cluster, "ok")
    add_node(cluster, "a")
    async with heartbeats(cluster, "ok"), cluster.manager(lifecycle_config(period=2)):
        await asyncio.sleep(5)
        await cluster.client.delete(NODES, "", "a")
        add_node(cluster, "a")
        await asyncio.sleep(5)
        assert (await statuses(cluster, "a"))["Ready"] == "True"
        await asyncio.sleep(5)
        assert (await statuses(cluster, "a"))["Ready"] == "Unknown"
    found = [each for each in await events(cluster) if each.startswith("Node/a")]
    assert [each.split()[2] for each in found] == [
        "NodeNotReady",
        "RegisteredNode",
        "RegisteredNode",
        "RemovingNode",
    ]


@pytest.mark.looptime
async def test_a_lease_that_is_renewed_while_it_is_read_is_fresh(
    cluster: Cluster,
) -> None:
    add_node(cluster, "ok")
    add_node(cluster, "a")
    fragile = Fragile(cluster.transport)
    fragile.seconds_of_a_read = 2.0
    async with (
        heartbeats(cluster, "ok", "a") as alive,
        cluster.manager(lifecycle_config(), fragile),
    ):
        await asyncio.sleep(5)
        alive.discard("a")
        await asyncio.sleep(6)
        alive.add("a")
        await asyncio.sleep(10)
    assert fragile.sent == []


@pytest.mark.looptime
async def test_a_node_that_renews_its_lease_is_not_evicted_while_it_waits(
    cluster: Cluster,
) -> None:
    """Its kubelet runs again, and posts its status later; upstream evicts its pods.

    The node waits behind another one: one node is tainted in ten seconds. If it falls
    silent again, it is tainted.
    """
    for name in ("ok", "more", "most", "a", "b"):
        add_node(cluster, name)
    config = lifecycle_config(node_eviction_rate=0.1)
    async with (
        heartbeats(cluster, "ok", "more", "most", "a", "b") as alive,
        cluster.manager(config) as recording,
    ):
        await asyncio.sleep(5)
        alive -= {"a", "b"}
        await asyncio.sleep(9)
        waiting = "a" if len(await taints(cluster, "b")) == 2 else "b"
        assert await taints(cluster, waiting) == ["unreachable:NoSchedule"]
        alive.add(waiting)
        await asyncio.sleep(30)
        assert await taints(cluster, waiting) == ["unreachable:NoSchedule"]
        sent = len(recording.writes)
        alive.discard(waiting)
        await asyncio.sleep(20)
        assert sorted(await taints(cluster, waiting)) == sorted(UNREACHABLE)
    assert len(recording.writes) == sent + 1


class SuspendedClock(LoopClock):
    """The clock of a machine that may be suspended: all its times go on meanwhile."""

    suspended = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.suspended


class Reads(InMemoryTransport):
    count = 0

    async def request(self, request: Request) -> Response:
        self.count += any("metadata.name=" in value for _, value in request.query)
        return await super().request(request)


@pytest.mark.looptime
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


@pytest.mark.looptime
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


@pytest.mark.looptime
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


@pytest.mark.looptime
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


class HandClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds


def _queue(rate: float, *names: str) -> tuple[EvictionQueue, HandClock]:
    clock = HandClock()
    queue = EvictionQueue(rate, clock)
    for name in names:
        queue.add(name)
    return queue, clock


def _taint(queue: EvictionQueue) -> str | None:
    name = queue.head()
    if name is not None:
        queue.discard(name)
        queue.used()
    return name


def test_the_first_node_waits_for_nothing_and_the_next_for_its_turn() -> None:
    queue, clock = _queue(0.1, "a", "b", "a")
    assert (_taint(queue), _taint(queue), queue.requeue_after()) == ("a", None, 10.0)
    clock.seconds = 5.0
    assert (_taint(queue), queue.requeue_after()) == (None, 5.0)
    clock.seconds = 10.0
    assert (_taint(queue), queue.requeue_after()) == ("b", None)


def test_tokens_are_not_saved_up() -> None:
    queue, clock = _queue(0.1)
    clock.seconds = 3600.0
    for name in "abc":
        queue.add(name)
    assert [_taint(queue) for _ in range(3)] == ["a", None, None]


def test_a_rate_of_zero_lets_no_node_through() -> None:
    """The nodes stay in the queue; at a new rate, the first waits for one token."""
    queue, clock = _queue(0.1, "a")
    queue.set_rate(0)
    clock.seconds = 3600.0
    assert (_taint(queue), queue.requeue_after(), len(queue._names)) == (None, None, 1)
    queue.set_rate(0.5)
    assert (_taint(queue), queue.requeue_after()) == (None, 2.0)
    clock.seconds += 2
    assert _taint(queue) == "a"


def test_the_same_rate_changes_nothing() -> None:
    queue, _ = _queue(0.1, "a", "b")
    assert _taint(queue) == "a"
    queue.set_rate(0.1)
    assert _taint(queue) is None


def test_a_node_that_fails_goes_behind_the_others() -> None:
    queue, _ = _queue(0.1, "a", "b")
    queue.postpone("a")
    queue.postpone("unknown")
    assert (_taint(queue), "a" in queue._names, "unknown" in queue._names) == (
        "b",
        True,
        False,
    )
