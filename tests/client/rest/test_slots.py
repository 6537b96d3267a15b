"""The requests of one key do not keep those of another key waiting."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.limits import SYNC_KEY, RequestLimiter
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import Cluster

pytestmark = pytest.mark.looptime


class Webhook:
    def __init__(self, cluster: Cluster) -> None:
        self.sent: list[tuple[float, str]] = []
        cluster.server.handle = self.handle  # type: ignore[method-assign]

    async def handle(self, request: Request) -> Response:
        self.sent.append((now(), request.path.split("/")[4]))
        await asyncio.sleep(10)
        return Response(200, {}, b"{}")

    def count(self) -> dict[float, dict[str, int]]:
        counts: dict[float, Counter[str]] = {}
        for time, namespace in self.sent:
            counts.setdefault(round(time, 6), Counter())[namespace] += 1
        return {time: dict(count) for time, count in counts.items()}


def now() -> float:
    return asyncio.get_running_loop().time()


async def sync(key: str, work: Callable[[], Awaitable[object]], after: float) -> float:
    await asyncio.sleep(after)
    of_key = SYNC_KEY.set(key)
    try:
        await work()
    finally:
        SYNC_KEY.reset(of_key)
    return now()


def deletes(client: Client, namespace: str, count: int) -> Callable[[], Awaitable[int]]:
    async def work() -> int:
        pods = [client.delete(PODS, namespace, f"pod-{n}") for n in range(count)]
        return len(await asyncio.gather(*pods))

    return work


async def test_a_key_waits_for_one_request_of_another(cluster: Cluster) -> None:
    Webhook(cluster)
    client = Client(cluster.transport, cluster.clock, in_flight=32)
    busy = asyncio.create_task(sync("ns/busy", deletes(client, "busy", 500), 0))
    assert await sync("ns/other", deletes(client, "other", 1), 15) == 30
    assert await busy == 160


async def test_a_key_has_eight_slots_while_another_waits(cluster: Cluster) -> None:
    webhook = Webhook(cluster)
    client = Client(cluster.transport, cluster.clock, in_flight=32)
    await asyncio.gather(
        sync("ns/a", deletes(client, "a", 80), 0),
        sync("ns/b", deletes(client, "b", 20), 5),
    )
    assert webhook.count() == {
        0: {"a": 32},
        10: {"a": 8, "b": 8},
        20: {"a": 8, "b": 8},
        30: {"a": 28, "b": 4},
        40: {"a": 4},
    }


async def test_another_namespace_waits_for_no_slow_request(cluster: Cluster) -> None:
    """A request gives its slot to other namespaces once it has waited for a second."""
    webhook = Webhook(cluster)
    client = Client(cluster.transport, cluster.clock, in_flight=32)
    busy = [
        asyncio.create_task(sync(f"busy/{n}", deletes(client, "busy", 50), 0))
        for n in range(10)
    ]
    assert await sync("other/web", deletes(client, "other", 1), 0.5) == 11
    assert await sync("other/web", deletes(client, "other", 8), 4) == 25
    assert list(webhook.count().items())[:4] == [
        (0, {"busy": 32}),
        (1, {"other": 1}),
        (10, {"busy": 32}),
        (15, {"other": 8}),
    ]
    for each in busy:
        each.cancel()
    await asyncio.gather(*busy, return_exceptions=True)


async def test_four_times_as_many_requests_are_in_flight(cluster: Cluster) -> None:
    """However many namespaces are slow."""
    webhook = Webhook(cluster)
    client = Client(cluster.transport, cluster.clock, in_flight=4)
    await asyncio.gather(
        *(sync(f"{n}/web", deletes(client, "x", 8), 0) for n in range(9))
    )
    times = sorted(time for time, _ in webhook.sent)
    in_flight = [sum(each - 10 < other <= each for other in times) for each in times]
    assert max(in_flight) == 16


async def test_keys_take_turns(cluster: Cluster) -> None:
    webhook = Webhook(cluster)
    client = Client(cluster.transport, cluster.clock, in_flight=4)
    await asyncio.gather(
        *(sync(f"ns/{each}", deletes(client, each, 6), 0) for each in ("a", "b", "c"))
    )
    assert webhook.count() == {
        0: {"a": 4},
        10: {"a": 2, "b": 1, "c": 1},
        20: {"b": 2, "c": 2},
        30: {"b": 2, "c": 2},
        40: {"b": 1, "c": 1},
    }


async def test_the_rate_limit_is_shared_by_turns_too(cluster: Cluster) -> None:
    """20 a second: the requests of a key that wait have not taken rates in advance."""

    async def answer(_: Request) -> Response:
        return Response(200, {}, b"{}")

    cluster.server.handle = answer  # type: ignore[method-assign,assignment]
    limiter = RequestLimiter(20, 30, cluster.clock)
    client = Client(cluster.transport, cluster.clock, limiter, in_flight=32)
    busy = asyncio.create_task(sync("ns/busy", deletes(client, "busy", 500), 0))
    assert await sync("ns/other", deletes(client, "other", 1), 1) < 3
    assert await busy > 20


async def test_a_slot_of_a_cancelled_waiter_goes_on(cluster: Cluster) -> None:
    Webhook(cluster)
    client = Client(cluster.transport, cluster.clock, in_flight=1)
    first, second, third, fourth = (
        asyncio.create_task(sync(f"ns/{each}", deletes(client, each, 1), 0))
        for each in ("a", "b", "c", "d")
    )
    await asyncio.sleep(1)
    first.cancel()
    second.cancel()
    assert await third == pytest.approx(11)
    assert await fourth == pytest.approx(21)
    ended = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(each) for each in ended] == [asyncio.CancelledError] * 2


async def test_a_cancelled_request_leaves_its_slot(cluster: Cluster) -> None:
    """While it waits for a slot, when it has just got one, and in flight."""
    webhook = Webhook(cluster)
    client = Client(cluster.transport, cluster.clock, in_flight=1)
    first, second, third, fourth = (
        asyncio.create_task(sync(f"ns/{each}", deletes(client, each, 1), 0))
        for each in ("a", "b", "c", "d")
    )
    await asyncio.sleep(1)
    second.cancel()
    await asyncio.sleep(1)
    first.cancel()  # third gets its slot in this turn, and is cancelled in the next
    await asyncio.sleep(0)
    third.cancel()
    assert await fourth == pytest.approx(12)
    ended = await asyncio.gather(first, second, third, return_exceptions=True)
    assert [type(each) for each in ended] == [asyncio.CancelledError] * 3
    assert [namespace for _, namespace in webhook.sent][-1] == "d"
    assert await sync("ns/e", deletes(client, "e", 1), 0) == pytest.approx(22)
