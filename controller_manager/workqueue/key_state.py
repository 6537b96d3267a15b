"""The state of one key in a work queue."""

from typing import Literal

from msgspec import Struct

State = Literal["Processing", "Queued", "Retrying", "BackingOff", "Delayed", "Idle"]
"""The state of a key.

- Processing: a worker syncs it now.
- Queued: it waits for a worker.
- Retrying: its backoff has ended, and it waits for the rate limit of retries.
- BackingOff: it failed, and its backoff has not ended.
- Delayed: it is added again at a known time.
- Idle: it is synced again only when an object changes.
"""


class KeyState(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The state of a key, and the times that go with it, in seconds from now.

    - `for_seconds`: the time since it was taken or added, if it is processed or queued.
    - `next_sync`: the time until it is added again, if that is known; a key that is
      processed or queued may be added again later, too.
    - `retries`: the number of failures since its last success.
    """

    state: State
    for_seconds: float | None = None
    next_sync: float | None = None
    retries: int = 0
