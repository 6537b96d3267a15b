"""Follows explanations until nothing is wrong any more."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final

from controller_manager.explain.cause import Explanation, State, worst

PERIOD: Final = 2.0
"""Seconds from one look to the next."""

Look = Callable[[], Awaitable[Sequence[Explanation]]]
"""Reads the objects anew, and returns their explanations."""


async def follow(look: Look, seconds: float) -> AsyncGenerator[Sequence[Explanation]]:
    """Yield the explanations whenever they change, until all objects are healthy.

    It ends after `seconds` at the latest; 0 means never.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    last: Sequence[Explanation] | None = None
    while True:
        found = await look()
        if found != last:
            yield found
            last = found
        if worst(each.state for each in found) is State.HEALTHY:
            return
        if seconds and loop.time() + PERIOD > end:
            return
        await asyncio.sleep(PERIOD)
