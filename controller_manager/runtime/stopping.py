"""Waits for work to be done, or for a stop."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def done_before(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Await `work` until it is done or `stop` is set; tell whether it was done.

    Work that is not done when `stop` is set is cancelled. Raises what `work` raises.
    """
    tasks = (asyncio.create_task(work), asyncio.create_task(stop.wait()))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if tasks[0].cancelled():
        return False
    tasks[0].result()
    return not stop.is_set()
