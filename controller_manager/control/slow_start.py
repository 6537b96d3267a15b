"""Slow start: one write first, then batches that double (slowStartBatch)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from controller_manager.client.rest.errors import gravest

LARGEST_BATCH: Final = 256
"""The most writes of one batch: their bodies are made in one turn of the event loop."""


async def slow_start(
    count: int, action: Callable[[], Awaitable[None]]
) -> tuple[int, Exception | None]:
    """Run `action` `count` times, in batches of 1, 2, 4, 8 and so on, up to 256.

    A batch runs concurrently. After a batch with a failure no further batch is
    started: an exhausted quota refuses one write, not 500. Returns how many runs
    were started, and the gravest failure if there was one.
    """
    started, batch = 0, 1
    while started < count:
        size = min(batch, count - started)
        results = await asyncio.gather(
            *(action() for _ in range(size)), return_exceptions=True
        )
        started += size
        failures = [each for each in results if isinstance(each, Exception)]
        if failures:
            return started, gravest(failures)
        for result in results:
            if result is not None:
                raise result  # a cancellation must not be swallowed
        batch = min(2 * batch, LARGEST_BATCH)
    return started, None
