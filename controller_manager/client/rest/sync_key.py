"""The key of the sync in progress, as a context variable.

A worker sets it around each sync, and tasks that a sync starts inherit it. The fence
reads it to check that this process owns the key, and the consistency store reads it
to record the versions that the sync has written.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

SYNC_KEY: Final[ContextVar[str]] = ContextVar("sync_key", default="")
"""The key of the sync; empty for work that belongs to no key, such as an event."""

PATIENCE: Final = 1.0
"""Seconds for which a request keeps other namespaces waiting.

Afterwards it gives its slot, and its sync gives its place among the workers, to keys of
other namespaces. Most requests end within a hundredth of that time.
"""

PLACES: Final = 4
"""The most slots and workers altogether, as a multiple of those without slow requests.

So a few namespaces with slow webhooks cannot use up memory and connections.
"""

ON_WAIT: Final[ContextVar[Callable[[], None] | None]] = ContextVar(
    "on_wait", default=None
)
"""Called when a request of the sync has waited for `PATIENCE`."""
