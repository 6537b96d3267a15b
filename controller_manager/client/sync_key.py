"""The key whose sync is under way, so that what a sync calls need not be told it.

A worker sets it around each sync. A task that a sync starts inherits it. Who
asks: the fence, which lets a key's writes pass while this process owns the key,
and what records the versions that a sync wrote.
"""

from contextvars import ContextVar
from typing import Final

SYNC_KEY: Final[ContextVar[str]] = ContextVar("sync_key", default="")
"""The key under sync; empty for work that belongs to no key, such as an event."""
