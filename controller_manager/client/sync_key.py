"""The key of the sync in progress, as a context variable.

A worker sets it around each sync, and tasks that a sync starts inherit it. The fence
reads it to check that this process owns the key, and the consistency store reads it
to record the versions that the sync has written.
"""

from contextvars import ContextVar
from typing import Final

SYNC_KEY: Final[ContextVar[str]] = ContextVar("sync_key", default="")
"""The key of the sync; empty for work that belongs to no key, such as an event."""
