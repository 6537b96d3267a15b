"""All workers of a process share the turns of its event loop."""

import asyncio
import io
import random
from collections.abc import Iterator

import pytest

from controller_manager.clock import LoopClock
from controller_manager.observability.logs import make_logger
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.worker import BUDGET, Turns, Workers
from controller_manager.workqueue.queue import WorkQueue
from tests.clusters import EPOCH
from tests.runtime.test_worker import Syncs

pytestmark = pytest.mark.looptime

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

    return Workers(
        name,
        queue,
        work.reconcile,
        count,
        clock=LoopClock(EPOCH),
        rng=random.Random(1),
        logger=make_logger(stream=io.StringIO()),
        metrics=Syncs(),
        turns=turns,
        on_start=begin,
    )


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
