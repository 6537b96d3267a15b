"""No write leaves this process unless it owns the key under sync."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.client.leadership.fencing import (
    FencedTransport,
    LeaseOwnership,
    NotLeading,
    PermanentOwnership,
)
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import RequestTimeout, may_be_applied
from controller_manager.client.rest.limits import SYNC_KEY
from controller_manager.client.rest.transport import Request, Response
from tests.client.leadership.elections import Candidate, Faulty
from tests.clusters import Cluster

pytestmark = pytest.mark.looptime


def time() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Owned:
    """All keys are owned for as long as `seconds` says."""

    seconds: Callable[[], float]

    def seconds_left(self, key: str) -> float:
        del key
        return self.seconds()


@dataclass
class Slow(Faulty):
    seconds: float = 0.0
    seen: list[Request] = field(default_factory=list)

    async def request(self, request: Request) -> Response:
        self.seen.append(request)
        await asyncio.sleep(self.seconds)
        return Response(200, {}, b"{}")


async def test_a_fence_of_a_standby_lets_reads_through(cluster: Cluster) -> None:
    """The error says that the write was not sent, so it was certainly not applied."""
    transport = Slow(cluster.transport)
    client = Client(FencedTransport(transport, Owned(lambda: 0.0)), cluster.clock)
    await client.get(PODS, "default", "a")
    with pytest.raises(NotLeading, match="this process does not lead") as refusal:
        await client.delete(PODS, "default", "a")
    assert not may_be_applied(refusal.value)
    assert [each.method for each in transport.seen] == ["GET"]


async def test_a_write_ends_with_the_lease(cluster: Cluster) -> None:
    """No write of the old leader may reach the server after the new leader starts."""
    ends_at = time() + 3.0
    transport = Slow(cluster.transport, seconds=100)
    fenced = FencedTransport(transport, Owned(lambda: max(0.0, ends_at - time())))
    client = Client(fenced, cluster.clock)
    started = time()
    with pytest.raises(RequestTimeout, match="no answer while this process led"):
        await client.delete(PODS, "default", "a")
    assert time() - started == pytest.approx(3.0)


async def test_each_renewal_gives_a_write_more_time(cluster: Cluster) -> None:
    """A webhook may answer after 25 seconds, which is longer than one lease."""
    transport = Slow(cluster.transport, seconds=25)
    async with Candidate(cluster, "a").running() as candidate:
        await candidate.elector.acquire()
        candidate.renewing()
        await asyncio.sleep(1.9)
        fenced = FencedTransport(transport, LeaseOwnership(candidate.elector))
        started = time()
        await Client(fenced, cluster.clock).delete(PODS, "default", "a")
        assert time() - started == 25


async def test_a_suspended_machine_ends_its_writes(cluster: Cluster) -> None:
    """The lease has expired meanwhile, but the event loop's time has not advanced."""
    asleep = 0.0
    transport = Slow(cluster.transport, seconds=60)
    ownership = Owned(lambda: max(0.0, 10 - time() - asleep))
    fenced = FencedTransport(transport, ownership)
    write = asyncio.create_task(
        Client(fenced, cluster.clock).delete(PODS, "default", "a")
    )
    await asyncio.sleep(0.5)
    asleep = 3600.0
    with pytest.raises(RequestTimeout, match="no answer while this process led"):
        await write
    assert time() <= 1.5


async def test_a_write_has_a_limit_of_its_own(cluster: Cluster) -> None:
    transport = Slow(cluster.transport)
    fenced = FencedTransport(transport, Owned(lambda: 1000.0))
    await Client(fenced, cluster.clock).delete(PODS, "default", "a")
    await Client(fenced, cluster.clock, write_timeout=5).delete(PODS, "default", "a")
    assert [each.timeout for each in transport.seen] == [70.0, 5.0]


async def test_a_write_ends_when_its_own_key_is_owned_no_more(cluster: Cluster) -> None:
    """Of two writes in progress, the one for a key that is still owned continues."""
    ends = {"default/kept": float("inf"), "default/lost": time() + 3.0}

    @dataclass
    class Shard:
        asked_for: set[str] = field(default_factory=set)

        def seconds_left(self, key: str) -> float:
            self.asked_for.add(key)
            return max(0.0, ends[key] - time())

    shard = Shard()
    client = Client(
        FencedTransport(Slow(cluster.transport, seconds=20), shard), cluster.clock
    )

    async def delete(key: str) -> float:
        SYNC_KEY.set(key)
        try:
            await client.delete(PODS, "default", "a")
        except RequestTimeout:
            return time()
        return -time()

    started = time()
    kept, lost = await asyncio.gather(delete("default/kept"), delete("default/lost"))
    assert kept == -(started + 20)
    assert lost == pytest.approx(started + 3)
    assert shard.asked_for == set(ends)


async def test_without_an_election_every_write_passes(cluster: Cluster) -> None:
    """For every key and for no key, without a time limit of the fence."""
    transport = Slow(cluster.transport, seconds=60)
    client = Client(FencedTransport(transport, PermanentOwnership()), cluster.clock)
    for key in ("", "default/a"):
        SYNC_KEY.set(key)
        await client.delete(PODS, "default", "a")
    assert [each.method for each in transport.seen] == ["DELETE", "DELETE"]
