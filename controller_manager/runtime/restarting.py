"""Work that is done again after an unexpected exception, or given up at a stop."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
"""Seconds between two attempts; each pause is twice as long as the one before."""


async def until_done(
    work: Callable[[], Awaitable[None]],
    failed: Callable[[Exception], None],
    stop: asyncio.Event,
    fatal: tuple[type[Exception], ...] = (),
) -> None:
    """Do `work` until it returns, or until it fails once `stop` is set.

    `failed` is called with each exception. A task of a task group that raised it would
    end all other tasks, and so all controllers. Exceptions of the types `fatal` are
    raised.
    """
    pause = _FIRST_PAUSE
    while True:
        try:
            await work()
        except fatal:
            raise
        except Exception as error:  # noqa: BLE001 - the caller logs and counts it
            failed(error)
        else:
            return
        try:
            async with asyncio.timeout(pause):
                await stop.wait()
        except TimeoutError:
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            return


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
