"""Delays of changes, and turns of the event loop."""

import asyncio
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from msgspec.structs import replace

from controller_manager.api.apps.v1 import REPLICASETS, ReplicaSet
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.clock import LoopClock
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.store import Lister, Store
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import OwnedHandler, handler_for
from controller_manager.runtime.watches import For, Owns
from controller_manager.runtime.worker import BUDGET, Turns, Workers
from controller_manager.workqueue.queue import WorkQueue
from tests.clusters import EPOCH, Cluster
from tests.runtime.test_worker import workers_of

pytestmark = pytest.mark.looptime


def owner(generation: int = 1) -> ReplicaSet:
    metadata = {
        "name": "rs",
        "namespace": "default",
        "uid": "u",
        "generation": generation,
    }
    return msgspec.convert({"metadata": metadata}, ReplicaSet)


def owned(version: str) -> Pod:
    reference = {"kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": True}
    metadata = {
        "name": "p",
        "namespace": "default",
        "resourceVersion": version,
        "ownerReferences": [reference],
    }
    return msgspec.convert({"metadata": metadata}, Pod)


def ignore(key: str, obj: Pod) -> None:
    del key, obj


def taken(queue: WorkQueue) -> Sequence[str]:
    found = []
    while (key := queue.take()) is not None:
        queue.done(key)
        found.append(key)
    return found


def handler_of_owned(queue: WorkQueue, delay: float) -> Handler[Pod]:
    owners: Store[ReplicaSet] = Store()
    owners.put(owner())
    lister = Lister(owners, REPLICASETS.kind)
    return OwnedHandler[Pod](Owns(PODS, delay), lister, queue, ignore, ignore).handler()


async def test_changes_within_the_delay_cause_one_sync(cluster: Cluster) -> None:
    queue = WorkQueue(cluster.clock)
    handler = handler_of_owned(queue, 1.0)
    handler.on_add(owned("1"))
    await asyncio.sleep(0.6)
    handler.on_update(owned("1"), owned("2"))
    assert taken(queue) == []
    await asyncio.sleep(0.5)
    assert taken(queue) == ["default/rs"]
    await asyncio.sleep(10)
    assert taken(queue) == []
    handler.on_delete(owned("2"))
    assert taken(queue) == []
    await asyncio.sleep(1)
    assert taken(queue) == ["default/rs"]


async def test_without_a_delay_a_key_is_added_at_once(cluster: Cluster) -> None:
    queue = WorkQueue(cluster.clock)
    handler_of_owned(queue, 0.0).on_add(owned("1"))
    assert taken(queue) == ["default/rs"]


async def test_a_new_dependent_need_not_cause_a_sync(cluster: Cluster) -> None:
    """Its later changes do, and so does one that is being deleted already."""
    queue, owners = WorkQueue(cluster.clock), Store[ReplicaSet]()
    owners.put(owner())
    lister = Lister(owners, REPLICASETS.kind)
    watch = Owns(PODS, when_added=False)
    owned_handler = OwnedHandler[Pod](watch, lister, queue, ignore, ignore)
    handler = owned_handler.handler()
    handler.on_add(owned("1"))
    assert taken(queue) == []
    handler.on_update(owned("1"), owned("2"))
    assert taken(queue) == ["default/rs"]
    leaving = replace(owned("3").metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    handler.on_add(replace(owned("3"), metadata=leaving))
    assert taken(queue) == ["default/rs"]


async def test_an_update_may_have_a_delay_of_its_own(cluster: Cluster) -> None:
    """It depends on the changed fields; additions and deletions do not wait."""
    queue = WorkQueue(cluster.clock)

    def delay(reconciler: object, old: ReplicaSet, new: ReplicaSet) -> float:
        assert reconciler is queue
        return 1.0 if old.metadata.generation == new.metadata.generation else 0.0

    watch = For(REPLICASETS, update_delay=delay)
    handler = handler_for(watch, queue, queue, lambda _: None)
    handler.on_add(owner())
    assert taken(queue) == ["default/rs"]
    handler.on_update(owner(), owner())
    assert taken(queue) == []
    await asyncio.sleep(1)
    assert taken(queue) == ["default/rs"]
    handler.on_update(owner(), owner(2))
    assert taken(queue) == ["default/rs"]
    handler.on_delete(owner(2))
    assert taken(queue) == ["default/rs"]


async def test_an_update_a_predicate_rejects_is_left_out(cluster: Cluster) -> None:
    queue = WorkQueue(cluster.clock)

    def no_delay(reconciler: object, old: ReplicaSet, new: ReplicaSet) -> float:
        del reconciler, old, new
        return 0.0

    watch = For(REPLICASETS, when=lambda _: False, update_delay=no_delay)
    handler_for(watch, queue, queue, lambda _: None).on_update(owner(), owner(2))
    assert taken(queue) == []


COST = 0.001
"""Seconds of work that each key takes here."""


class Work:
    """A clock that only work advances."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.turns: list[float] = []

    def clock(self) -> float:
        return self.seconds

    async def reconcile(self, key: str) -> Outcome:
        del key
        self.seconds += COST
        return DONE


def pool(work: Work, turns: Turns, name: str, keys: int, count: int = 5) -> Workers:
    queue = WorkQueue(LoopClock(EPOCH), is_open=False)

    def begin() -> Iterator[None]:
        for number in range(keys):
            queue.add(f"{name} {number}")
            yield

    return workers_of(queue, work.reconcile, count, turns=turns, on_start=begin)


async def test_keys_without_changes_do_not_block_the_loop() -> None:
    """Of 4,000 keys a few run in each turn; other tasks run after each 5 ms."""
    work = Work()
    turns = Turns(clock=work.clock, on_turn=work.turns.append)
    pools = [pool(work, turns, name, 1000) for name in "abcd"]
    running = [asyncio.create_task(each.run()) for each in pools]
    longest, before = 0.0, 0.0
    for _ in range(2000):
        await asyncio.sleep(0)
        longest = max(longest, work.seconds - before)
        before = work.seconds
    assert work.seconds == pytest.approx(4000 * COST)
    assert longest <= BUDGET + COST
    assert max(work.turns) <= BUDGET + COST
    for each in pools:
        each.stop()
    await asyncio.gather(*running)


async def test_every_controller_gets_its_share_of_the_turns() -> None:
    """A controller with many keys and workers does not make another wait."""
    work = Work()
    turns = Turns(clock=work.clock)
    busy = pool(work, turns, "busy", 10_000, count=50)
    small = pool(work, turns, "small", 10, count=1)
    running = [asyncio.create_task(each.run()) for each in (busy, small)]
    await asyncio.sleep(0.000001)
    await small.queue.drained()
    assert work.seconds < 3.0
    assert len(busy.queue) > 5000
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def test_a_turn_goes_first_to_workers_that_had_none() -> None:
    """Otherwise the same worker would be the first in each turn."""
    work = Work()
    turns = Turns(clock=work.clock)
    worked: list[str] = []

    async def use_up(name: str) -> None:
        turn = 0
        for _ in range(3):
            turn = await turns.wait(turn)
            worked.append(name)
            work.seconds += 2 * BUDGET

    await asyncio.gather(*(use_up(name) for name in "abc"))
    assert worked == list("abcabcabc")


async def test_workers_wait_until_they_may_start() -> None:
    """The queue collects keys, the controller is healthy, and it can be stopped."""
    work = Work()
    ready = asyncio.Event()

    async def wait() -> None:
        await ready.wait()

    waiting, stopped = (pool(work, Turns(), name, 3) for name in ("a", "b"))
    for each in (waiting, stopped):
        each.ready = wait
    running = [asyncio.create_task(each.run()) for each in (waiting, stopped)]
    await asyncio.sleep(1)
    assert (len(waiting.queue), waiting.is_healthy, work.seconds) == (3, True, 0)
    stopped.stop()
    await running[1]
    ready.set()
    await asyncio.sleep(1)
    assert (len(waiting.queue), waiting.is_healthy) == (0, True)
    assert work.seconds == pytest.approx(3 * COST)
    waiting.stop()
    await running[0]
