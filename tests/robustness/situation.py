"""Runs a test of this package on uvloop, with a deadline; helpers that wait."""

import asyncio
import math
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

import uvloop

P = ParamSpec("P")

LIMIT = 150.0
"""Seconds after which a test is cancelled."""

_POLL = 0.01


def on_uvloop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test on the event loop of production, for `LIMIT` seconds at most."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(LIMIT):
                await test(*args, **kwargs)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(bounded())

    return run


def now() -> float:
    return asyncio.get_running_loop().time()


async def seconds_until(condition: Callable[[], bool], limit: float) -> float:
    """Return the seconds until a condition holds, infinity if not within `limit`."""
    began = now()
    while not condition():
        if now() - began > limit:
            return math.inf
        await asyncio.sleep(_POLL)
    return now() - began


async def until(condition: Callable[[], bool], limit: float, what: str) -> None:
    """Wait for a condition; fail with `what` if it does not hold within `limit`."""
    seconds = await seconds_until(condition, limit)
    assert seconds < math.inf, f"not within {limit:g} s: {what}"


async def until_time(when: float) -> None:
    """Wait until the loop's clock shows `when`."""
    await asyncio.sleep(max(0.0, when - now()))
