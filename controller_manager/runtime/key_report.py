"""The report about one key of a controller: its last sync, and the next one.

Only a sync that left something to do is remembered: one that failed, that waits for a
cache, or whose object waits for something. So a healthy cluster costs no memory, and
nothing is remembered of objects that are gone.
"""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from controller_manager.clock import Clock
from controller_manager.workqueue.key_state import KeyState

from .outcome import Done, Failed, Outcome, Reason, Requeue, failure_outcome


class SyncRecord(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The last sync of a key.

    - `at`: the time at which it ended, and `seconds`: its duration.
    - `outcome`: as in the metrics of syncs.
    - `message`: the error, or the reason to sync again.
    - `waiting_for`: the reasons why the object is not yet as its spec wants it.
    """

    at: datetime
    seconds: float
    outcome: Literal["success", "requeue", "refused", "error"]
    message: str = ""
    waiting_for: tuple[Reason, ...] = ()


class KeyReport(Struct, frozen=True, rename="camel"):
    """A key in one queue of a controller.

    `last_sync` is `None` if the last sync left nothing to do, or there was none.
    """

    queue: str
    state: KeyState
    last_sync: SyncRecord | None


class SyncRecords:
    """The last syncs of the keys that wait for something."""

    def __init__(self, clock: Clock) -> None:
        """Take the clock; start without any."""
        self._clock = clock
        self._records: dict[str, SyncRecord] = {}

    def __len__(self) -> int:
        """Return the number of keys that are remembered."""
        return len(self._records)

    def of(self, key: str) -> SyncRecord | None:
        """Return the last sync of a key, `None` if it left nothing to do."""
        return self._records.get(key)

    def ended(self, key: str, outcome: Outcome, seconds: float) -> None:
        """Note the outcome of a sync that took some seconds."""
        now = self._clock.now
        match outcome:
            case Failed(error=error):
                kind = failure_outcome(error)
                record = SyncRecord(now(), seconds, kind, str(error) or repr(error))
            case Requeue(reason=reason):
                record = SyncRecord(now(), seconds, "requeue", reason)
            case Done(reasons=()):
                self._records.pop(key, None)
                return
            case Done(reasons=reasons):
                record = SyncRecord(now(), seconds, "success", "", reasons)
        self._records[key] = record
