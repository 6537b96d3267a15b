"""Pauses Python's garbage collector, or has it work less often."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


@contextmanager
def paused_collector() -> Iterator[None]:
    """Collect no garbage while entered.

    All decoded objects stay, so there is no garbage. The search for it takes five times
    as long as the decoding.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


_THRESHOLDS: Final = (20_000, 1, 25)
"""Python's are 700, 10, 10: it would look at all objects seven times as often.

Every second collection takes the objects of the last one, too. So it looks at a new
object once or twice, and at none for long.
"""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage less often while entered, in a process that stores objects.

    Stored objects stay, and have no cycles. The search for garbage among them took a
    seventh of the CPU time in which pods were created.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
