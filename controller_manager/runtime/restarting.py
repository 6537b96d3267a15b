"""Work that is done again after an unexpected exception."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

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
