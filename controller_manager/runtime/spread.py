"""Work over many objects that is spread over several turns of the event loop.

A sync of one large object is one key, so the budget that workers check before each
key does not end it. Such work is written as a generator that yields after each part.
It stays free of the event loop: `spread` runs it in the daemon, `finish` at once.
"""

import heapq
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from controller_manager.runtime.turns import Turns

ResultT = TypeVar("ResultT")
ItemT = TypeVar("ItemT")

Spread = Generator[None, None, ResultT]
"""Work that yields after each part, and returns its result.

Other tasks may run at each yield, so the work must not depend on a cache that may
change meanwhile.
"""

PART: Final = 250
"""The default number of objects of one part.

At 4 µs for an object a part takes a millisecond. The budget of a turn is five, and
is checked after each part, so a turn stays below ten even if an object takes 20 µs.
"""

_SORTED: Final = 1000
"""The number of objects that are sorted or merged in one part: about a millisecond."""


async def spread(work: Spread[ResultT], turns: Turns) -> ResultT:
    """Run work to its end, and let other tasks run when the turn is used up.

    Returns the result of the work and raises its exceptions. Work that fits into
    the rest of the turn does not wait at all.
    """
    turn = 0
    while True:
        turn = await turns.wait(turn)
        try:
            next(work)
        except StopIteration as stop:
            result: ResultT = stop.value
            return result


def finish(work: Spread[ResultT]) -> ResultT:
    """Run work to its end without a pause; return its result."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            result: ResultT = stop.value
            return result


def sorting(items: Sequence[ItemT], key: Callable[[ItemT], Any]) -> Spread[list[ItemT]]:
    """Return items in the order of their keys; equal ones stay in their order.

    Sorts parts, and then merges them. It takes three times as long as `sorted`, but
    100,000 texts would hold the event loop for 100 ms.
    """
    runs: list[list[ItemT]] = []
    for part in parts(items, _SORTED):
        runs.append(sorted(part, key=key))
        yield
    if len(runs) < 2:  # noqa: PLR2004 - one run is in order
        return runs[0] if runs else []
    merged: list[ItemT] = []
    merging = heapq.merge(*runs, key=key)
    while len(merged) < len(items):
        merged += islice(merging, _SORTED)
        yield
    return merged


def parts(items: Sequence[ItemT], size: int = PART) -> Iterator[Sequence[ItemT]]:
    """Yield items in parts of `size`, the last of which may have fewer."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
