"""Queues of keys, with backoff, limits and the state of each key."""

import asyncio
import random

import pytest
from msgspec.structs import replace

from controller_manager.clock import LoopClock
from controller_manager.workqueue.queue import KeyState, ShutDown, WorkQueue
from controller_manager.workqueue.ratelimiters import ExponentialBackoff, TokenBucket
from tests.clusters import EPOCH

pytestmark = pytest.mark.looptime


class Metrics:
    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def added(self, depth: int) -> None:
        self.calls.append(("added", depth))

    def got(self, waited: float, depth: int) -> None:
        self.calls.append(("got", round(waited, 6), depth))

    def done(self, worked: float) -> None:
        self.calls.append(("done", round(worked, 6)))

    def retried(self) -> None:
        self.calls.append(("retried",))

    def dropped(self) -> None:
        self.calls.append(("dropped",))

    def running(self, unfinished: float, longest: float) -> None:
        self.calls.append(("running", round(unfinished, 6), round(longest, 6)))


@pytest.fixture
def clock() -> LoopClock:
    return LoopClock(EPOCH)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def queue(clock: LoopClock, metrics: Metrics) -> WorkQueue:
    return WorkQueue(clock, metrics=metrics)


async def test_keys_come_in_the_order_of_their_adding(queue: WorkQueue) -> None:
    for key in ("a", "b", "c"):
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


async def test_a_key_that_waits_is_not_added_twice(queue: WorkQueue) -> None:
    queue.add("a")
    queue.add("a")
    assert len(queue) == 1


async def test_a_key_added_meanwhile_comes_again(queue: WorkQueue) -> None:
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await queue.get() == "a"


async def test_a_shutdown_drops_what_waits(clock: LoopClock) -> None:
    metrics = Metrics()
    queue = WorkQueue(clock, metrics=metrics)
    for key in "abc":
        queue.add(key)
    assert await queue.get() == "a"
    queue.add("a")
    del metrics.calls[:]
    queue.shut_down()
    queue.add("d")
    queue.add_after("e", 1)
    assert (len(queue), queue.is_idle, metrics.calls) == (0, False, [("dropped",)])
    with pytest.raises(ShutDown):
        await queue.get()
    queue.done("a")
    await queue.drained()
    with pytest.raises(ShutDown):
        await queue.get()


async def test_shutting_down_ends_the_consumers_that_wait(queue: WorkQueue) -> None:
    """At once, also if a key has just been added for one of them."""
    waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.add("a")
    queue.shut_down()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in results] == [ShutDown] * 3
    await queue.drained()


async def test_a_cancelled_consumer_passes_its_turn_on(queue: WorkQueue) -> None:
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"
    await asyncio.gather(first, return_exceptions=True)


async def test_the_earliest_of_several_deadlines_wins(queue: WorkQueue) -> None:
    loop = asyncio.get_running_loop()
    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("a", 7)
    assert queue.delayed == 1
    assert await queue.get() == "a"
    assert loop.time() == 3
    queue.done("a")
    await asyncio.sleep(20)
    assert len(queue) == 0


async def test_an_immediate_add_does_not_cancel_a_delayed_one(queue: WorkQueue) -> None:
    queue.add_after("a", 5)
    queue.add("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert await queue.get() == "a"
    assert asyncio.get_running_loop().time() == 5


async def test_failures_double_the_delay_until_forgotten(queue: WorkQueue) -> None:
    loop = asyncio.get_running_loop()
    instants = []
    for _ in range(3):
        queue.add_rate_limited("a")
        await queue.get()
        instants.append(round(loop.time(), 6))
        queue.done("a")
    assert instants == [0.005, 0.015, 0.035]
    assert queue.failures("a") == 3
    queue.forget("a")
    assert queue.failures("a") == 0


async def test_the_metrics_hooks_are_called_for_everything(
    queue: WorkQueue, metrics: Metrics
) -> None:
    queue.add("a")
    await asyncio.sleep(2)
    await queue.get()
    await asyncio.sleep(3)
    queue.report_running()
    queue.done("a")
    queue.add_after("a", 1)
    assert metrics.calls == [
        ("added", 1),
        ("got", 2, 0),
        ("running", 3, 3),
        ("done", 3),
        ("retried",),
    ]
    queue.shut_down()


async def test_many_producers_and_consumers_lose_nothing(clock: LoopClock) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    queue = WorkQueue(clock)
    version = dict.fromkeys("abcdef", 0)
    processed: dict[str, int] = {}
    busy: set[str] = set()

    async def produce() -> None:
        for _ in range(50):
            key = rng.choice("abcdef")
            version[key] += 1
            if rng.random() < 0.3:
                queue.add_after(key, rng.random())
            else:
                queue.add(key)
            await asyncio.sleep(rng.random() / 10)

    async def consume() -> None:
        while True:
            try:
                key = await queue.get()
            except ShutDown:
                return
            assert key not in busy, seed
            busy.add(key)
            seen = version[key]
            await asyncio.sleep(rng.random() / 5)
            processed[key] = seen
            busy.discard(key)
            queue.done(key)

    consumers = [asyncio.create_task(consume()) for _ in range(3)]
    await asyncio.gather(*(produce() for _ in range(3)))
    await asyncio.sleep(5)
    await queue.drained()
    queue.shut_down()
    await asyncio.gather(*consumers)
    assert processed == {key: n for key, n in version.items() if n}, seed


async def test_backoff_stays_below_two_minutes() -> None:
    """However often a key fails; upstream waits up to 16 minutes."""
    backoff = ExponentialBackoff()
    delays = [backoff.when("a") for _ in range(2000)]
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[14] == pytest.approx(81.92)
    assert set(delays[15:]) == {120.0}


async def fail(queue: WorkQueue, until: float) -> dict[str, list[float]]:
    """Fail every key that is taken; return the times of its failures."""
    loop = asyncio.get_running_loop()
    tried: dict[str, list[float]] = {}
    while loop.time() < until:
        try:
            async with asyncio.timeout(until - loop.time()):
                key = await queue.get()
        except TimeoutError:
            break
        tried.setdefault(key, []).append(loop.time())
        queue.add_rate_limited(key)
        queue.done(key)
    return tried


@pytest.mark.slow
async def test_all_retries_together_are_ten_a_second(queue: WorkQueue) -> None:
    """However many keys fail: without the limit 5,000 keys made 42 a second."""
    for number in range(5000):
        queue.add(str(number))
    tried = await fail(queue, until=600)
    instants = sorted(instant for each in tried.values() for instant in each)
    retries = instants[5000:]
    assert len(retries) == pytest.approx(100 + 600 * 10, abs=2)
    for start in range(60, 600, 10):
        within = [each for each in retries if start <= each < start + 10]
        assert len(within) == pytest.approx(100, abs=1)


async def test_a_healthy_key_retries_at_once_among_others(queue: WorkQueue) -> None:
    """One conflict must not cost it minutes, as it does upstream."""
    for number in range(5000):
        queue.add(str(number))
    failing = asyncio.create_task(fail(queue, until=300))
    await asyncio.sleep(100)
    queue.add_rate_limited("healthy")
    failed_at = asyncio.get_running_loop().time()
    tried = await failing
    assert tried["healthy"][0] - failed_at < 0.25


async def test_no_key_waits_for_ever_behind_failures(queue: WorkQueue) -> None:
    """Half of the retries go to those that have waited the longest."""
    loop = asyncio.get_running_loop()
    for _ in range(30):
        queue.add_rate_limited("old")
    tried: dict[str, int] = {}

    async def churn() -> None:
        for number in range(20_000):
            queue.add_rate_limited(f"new {number}")
            await asyncio.sleep(0.09)

    churning = asyncio.create_task(churn())
    while loop.time() < 900:
        key = await queue.get()
        tried[key] = tried.get(key, 0) + 1
        if key == "old":
            queue.add_rate_limited(key)
        queue.done(key)
    churning.cancel()
    assert tried["old"] >= 3


async def test_other_keys_go_before_retries(queue: WorkQueue) -> None:
    for number in range(100):
        queue.add_rate_limited(f"failing {number}")
    await asyncio.sleep(1)
    for number in range(6):
        queue.add(f"changed {number}")
    taken = [queue.take() for _ in range(8)]
    assert [each for each in taken if each and "changed" in each] == [
        f"changed {number}" for number in range(6)
    ]
    assert sum("failing" in (each or "") for each in taken) == 2


async def test_retries_that_are_ready_keep_all_consumers_busy(queue: WorkQueue) -> None:
    """Not only the one that the timer woke."""
    busy = 0
    most = 0

    async def consume() -> None:
        nonlocal busy, most
        while True:
            key = await queue.get()
            busy += 1
            most = max(most, busy)
            await asyncio.sleep(10)
            busy -= 1
            queue.done(key)

    consumers = [asyncio.create_task(consume()) for _ in range(5)]
    await asyncio.sleep(0)
    for number in range(20):
        queue.add_rate_limited(str(number))
    await asyncio.sleep(5)
    assert most == 5
    for each in consumers:
        each.cancel()
    await asyncio.gather(*consumers, return_exceptions=True)
    queue.shut_down()


async def test_a_retry_whose_token_has_come_is_not_forgotten() -> None:
    """Even if a long turn sets the timer again."""

    class Ahead(LoopClock):
        seconds = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.seconds

    ahead = Ahead(EPOCH)
    queue = WorkQueue(ahead, retries=TokenBucket(10, 1, ahead))
    got: list[str] = []

    async def consume() -> None:
        while True:
            key = await queue.get()
            got.append(key)
            queue.done(key)

    consuming = asyncio.create_task(consume())
    queue.add_rate_limited("a")
    queue.add_rate_limited("b")
    await asyncio.sleep(0.05)
    assert got == ["b"]
    ahead.seconds = 0.1
    queue.add_after("later", 3600)
    await asyncio.sleep(1)
    assert got == ["b", "a"]
    consuming.cancel()
    await asyncio.gather(consuming, return_exceptions=True)
    queue.shut_down()


async def test_a_key_that_succeeds_is_not_tried_again(queue: WorkQueue) -> None:
    """It may have been looked at for another reason, before its retry was due."""
    queue.add_rate_limited("a")
    queue.add("a")
    assert await queue.get() == "a"
    queue.forget("a")
    queue.done("a")
    assert queue.delayed == 0
    await asyncio.sleep(600)
    assert len(queue) == 0


async def test_a_shutdown_drops_the_retries(queue: WorkQueue) -> None:
    """Also keys that wait for a backoff, and keys that wait for a token."""
    for number in range(500):
        queue.add_rate_limited(str(number))
    await asyncio.sleep(1)
    assert queue.delayed > 300
    queue.shut_down()
    assert queue.delayed == 0


async def test_a_cancelled_key_does_not_come(queue: WorkQueue) -> None:
    """The others come at their deadlines, and the key comes if it is added again."""
    loop = asyncio.get_running_loop()
    queue.add_after("a", 5)
    queue.add_after("b", 7)
    queue.cancel("a")
    queue.cancel("never added")
    assert queue.delayed == 1
    queue.add_after("a", 9)
    came = []
    for _ in range(2):
        came.append((await queue.get(), loop.time()))
        queue.done(came[-1][0])
    assert came == [("b", 7), ("a", 9)]


async def test_keys_that_were_cancelled_cost_no_memory(queue: WorkQueue) -> None:
    """Their deadlines may be a year ahead."""
    for number in range(10_000):
        queue.add_after(str(number), 365 * 24 * 3600)
    for number in range(9_990):
        queue.cancel(str(number))
    assert (queue.delayed, queue._delayed.entries() < 300) == (10, True)


async def test_cancellations_keep_the_order(queue: WorkQueue, clock: LoopClock) -> None:
    rng = random.Random(1)
    wanted: dict[str, float] = {}
    for number in range(2_000):
        key = str(number % 300)
        due = clock.monotonic() + rng.randrange(1, 10_000)
        queue.add_after(key, due - clock.monotonic())
        wanted[key] = min(due, wanted.get(key, due))
        for each in rng.sample(sorted(wanted), len(wanted) // 100):
            queue.cancel(each)
            del wanted[each]
    came = {}
    while queue.delayed or len(queue):
        key = await queue.get()
        came[key] = clock.monotonic()
        queue.done(key)
    assert came == wanted
    assert list(came.values()) == sorted(came.values())


async def test_a_token_bucket_refills_with_time(clock: LoopClock) -> None:
    bucket = TokenBucket(qps=0.5, burst=2, clock=clock)
    assert [bucket.try_take() for _ in range(3)] == [True, True, False]
    await asyncio.sleep(2)
    assert [bucket.try_take(), bucket.try_take()] == [True, False]
    assert bucket.next_in() == 2
    await asyncio.sleep(100)
    assert [bucket.try_take() for _ in range(3)] == [True, True, False]


async def test_a_queue_ignores_keys_until_somebody_takes_them(
    clock: LoopClock, metrics: Metrics
) -> None:
    """The queue of a standby would grow with every object that is created."""
    queue = WorkQueue(clock, metrics=metrics, is_open=False)
    queue.add("gone")
    queue.open()
    queue.add("here")
    await asyncio.sleep(1)
    assert await queue.get() == "here"
    assert metrics.calls == [("added", 1), ("got", 1.0, 0)]


def rounded(state: KeyState) -> KeyState:
    waited, due = state.for_seconds, state.next_sync
    return replace(
        state,
        for_seconds=None if waited is None else round(waited, 6),
        next_sync=None if due is None else round(due, 6),
    )


async def test_a_key_is_followed_from_the_queue_to_its_next_sync() -> None:
    queue = WorkQueue(LoopClock(EPOCH))
    states = [queue.state("a")]
    queue.add("a")
    await asyncio.sleep(2)
    states.append(queue.state("a"))
    queue.take()
    await asyncio.sleep(3)
    queue.add_after("a", 60)
    states.append(queue.state("a"))
    queue.done("a")
    await asyncio.sleep(10)
    states.append(queue.state("a"))
    assert [rounded(each) for each in states] == [
        KeyState("Idle"),
        KeyState("Queued", for_seconds=2),
        KeyState("Processing", for_seconds=3, next_sync=60),
        KeyState("Delayed", next_sync=50),
    ]
    queue.shut_down()


async def test_a_key_that_failed_tells_its_backoff_and_its_retries() -> None:
    clock = LoopClock(EPOCH)
    empty = TokenBucket(0.1, 1, clock)
    empty.try_take()
    queue = WorkQueue(clock, ExponentialBackoff(4, 100), retries=empty)
    queue.add_rate_limited("a")
    states = [queue.state("a")]
    await asyncio.sleep(5)
    states.append(queue.state("a"))
    assert [rounded(each) for each in states] == [
        KeyState("BackingOff", next_sync=4, retries=1),
        KeyState("Retrying", retries=1),
    ]
    queue.shut_down()
