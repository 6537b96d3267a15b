"""Python's garbage collector, which is in the way of what makes many objects."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """Collect no garbage while entered.

    Decoded objects all stay, so there is none. To look for it takes five times as long
    as to decode them.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
