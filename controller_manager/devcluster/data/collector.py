"""Pauses Python's garbage collector while many objects are made."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
