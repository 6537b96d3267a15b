"""A queue tells where each key is, and when it comes next."""

import asyncio

import pytest
from msgspec.structs import replace

from controller_manager.clock import LoopClock
from controller_manager.workqueue.queue import KeyState, WorkQueue
from controller_manager.workqueue.ratelimiters import ExponentialBackoff, TokenBucket
from tests.clusters import EPOCH

pytestmark = pytest.mark.looptime


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
