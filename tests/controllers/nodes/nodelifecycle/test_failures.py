"""The health of nodes while writes or connections fail."""

import asyncio
from datetime import UTC, datetime

import pytest

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
from tests.clusters import EPOCH, TOKEN

from .fixtures import Kubelets

pytestmark = pytest.mark.looptime

UNREACHABLE = ["unreachable:NoSchedule", "unreachable:NoExecute"]


class Fragile:
    """A transport that can be cut, or be slow."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.is_cut = False
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
        if ("fieldSelector", "metadata.name=a") in request.query:
            await asyncio.sleep(self.seconds_of_a_read)
        return await self._inner.request(request)

    async def stream(self, request: Request) -> Stream:
        return await self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


async def test_no_api_server_kills_no_node(cluster: Kubelets) -> None:
    names = [f"n{number}" for number in range(20)]
    cluster.nodes_of(*names)
    fragile = Fragile(cluster.transport)
    async with cluster.running(*names, transport=fragile) as (alive, _):
        await asyncio.sleep(5)
        fragile.is_cut = True
        alive.clear()
        await asyncio.sleep(30)
        alive.update(names)
        await asyncio.sleep(3)
        fragile.is_cut = False
        await asyncio.sleep(10)
        assert cluster.all_taints() == {name: [] for name in names}
    assert fragile.sent == []


async def test_a_lease_renewed_while_read_is_fresh(cluster: Kubelets) -> None:
    cluster.nodes_of("ok", "a")
    fragile = Fragile(cluster.transport)
    fragile.seconds_of_a_read = 2.0
    async with cluster.running("ok", "a", transport=fragile) as (alive, _):
        await asyncio.sleep(5)
        alive.discard("a")
        await asyncio.sleep(6)
        alive.add("a")
        await asyncio.sleep(10)
    assert fragile.sent == []


async def test_a_node_that_renews_is_not_evicted(cluster: Kubelets) -> None:
    """Its kubelet runs again, and posts its status later; upstream evicts its pods.

    The node waits behind another one: one node is tainted in ten seconds. If it falls
    silent again, it is tainted.
    """
    names = ("ok", "more", "most", "a", "b")
    cluster.nodes_of(*names)
    running = cluster.running(*names, node_eviction_rate=0.1)
    async with running as (alive, recording):
        await asyncio.sleep(5)
        alive -= {"a", "b"}
        await asyncio.sleep(9)
        waiting = "a" if len(cluster.taints("b")) == 2 else "b"
        assert cluster.taints(waiting) == ["unreachable:NoSchedule"]
        alive.add(waiting)
        await asyncio.sleep(30)
        assert cluster.taints(waiting) == ["unreachable:NoSchedule"]
        sent = len(recording.writes)
        alive.discard(waiting)
        await asyncio.sleep(20)
        assert sorted(cluster.taints(waiting)) == sorted(UNREACHABLE)
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


async def test_a_suspended_machine_finds_no_node_silent(cluster: Kubelets) -> None:
    """The process has read nothing for five minutes, but does not read each lease now.

    With thousands of nodes that would be thousands of requests. The time of the pause
    does not count as silence, the time around it does.
    """
    names = [f"n{number}" for number in range(5)]
    cluster.nodes_of(*names)
    clock = SuspendedClock(EPOCH)
    reads = Reads(cluster.server, TOKEN)
    async with cluster.running(*names, period=4.0, transport=reads, clock=clock) as (
        alive,
        recording,
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
