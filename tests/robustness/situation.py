"""Runs a test of this package on uvloop, with a deadline; helpers that wait."""

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

LIMIT = 150.0
"""Seconds after which a test is cancelled."""

_POLL = 0.01


def on_uvloop(situation: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test on the event loop of production, for `LIMIT` seconds at most."""

    async def bounded() -> None:
        async with asyncio.timeout(LIMIT):
            await situation()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


async def seconds_until(condition: Callable[[], bool], limit: float) -> float:
    """Return the seconds until a condition holds, infinity if not within `limit`."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not condition():
        if loop.time() - began > limit:
            return math.inf
        await asyncio.sleep(_POLL)
    return loop.time() - began


async def until(condition: Callable[[], bool], limit: float, what: str) -> None:
    """Wait for a condition; fail with `what` if it does not hold within `limit`."""
    seconds = await seconds_until(condition, limit)
    assert seconds < math.inf, f"not within {limit:g} s: {what}"


async def until_time(when: float) -> None:
    """Wait until the loop's clock shows `when`."""
    await asyncio.sleep(max(0.0, when - asyncio.get_running_loop().time()))
