"""Follows explanations until nothing is wrong any more."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final

from .cause import Explanation, State, worst
from .view import Missing, Unread

PERIOD: Final = 2.0
"""Seconds from one look to the next."""

PATIENCE: Final = 120.0
"""Seconds without an answer after which to give up."""

Look = Callable[[], Awaitable[Sequence[Explanation]]]
"""Reads the objects anew, and returns their explanations."""


_NO_ANSWER: Final = "no answer in the time to follow"

_SETTLED: Final = 5
"""The equal answers in a row after which an incomplete one is final."""


async def follow(
    look: Look, seconds: float, failed: Callable[[Unread], None]
) -> AsyncGenerator[Sequence[Explanation]]:
    """Yield the explanations whenever they change, until all objects are healthy.

    It ends after `seconds` at the latest, in the middle of a look, too; 0 means never.
    `failed` is called for the first of several looks in a row that fail. Raises Unread
    if the first look of all fails, or if none succeeds for `PATIENCE` seconds; raises
    Missing at once.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    last: Sequence[Explanation] | None = None
    answered_at, equal, is_failing = loop.time(), 0, False
    while True:
        try:
            async with asyncio.timeout_at(end if seconds else None):
                found = await look()
        except TimeoutError:
            if last is None:
                raise Unread(_NO_ANSWER) from None
            return
        except Missing:
            raise
        except Unread as error:
            if last is None or loop.time() - answered_at >= PATIENCE:
                raise
            if not is_failing:
                failed(error)
            is_failing = True
        else:
            answered_at, is_failing = loop.time(), False
            equal = equal + 1 if found == last else 1
            if equal == 1:
                yield found
            last = found
            if _is_done(found, equal):
                return
        if seconds and loop.time() + PERIOD > end:
            return
        await asyncio.sleep(PERIOD)


def _is_done(found: Sequence[Explanation], equal: int) -> bool:
    """Tell whether all objects are healthy.

    If something could not be read, the answer must have been the same for a while:
    requests that fail for a moment make nothing healthy. An answer for which the time
    was over is not final at all.
    """
    if any(each.timed_out for each in found):
        return False
    is_complete = not any(each.unread for each in found)
    is_healthy = worst(each.state for each in found) is State.HEALTHY
    return is_healthy and (is_complete or equal >= _SETTLED)
