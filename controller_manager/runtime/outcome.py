"""The outcome of a reconcile, which tells the worker loop how to go on with the key.

The outcome is remembered only if it left something to do: a sync that failed, that
waits for a cache, or whose object waits for something. So a healthy cluster costs no
memory, and nothing is remembered of objects that are gone.
"""

from collections.abc import Awaitable
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct

from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.meta import KubeObject, Resource
from controller_manager.api.scalars import parse_time
from controller_manager.client.rest.errors import is_refusal
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger
from controller_manager.workqueue.queue import KeyState


class Reason(Struct, frozen=True, rename="camel"):
    """One reason why an object is not yet as its spec wants it.

    `waiting_for` completes the words "waiting for". `since` is the time at which the
    wait began, `None` if it is not known. `object` is the object that must change.
    """

    waiting_for: str
    since: datetime | None
    object: ObjectReference


def waiting(
    resource: Resource[Any], obj: KubeObject, waiting_for: str, since: str | None = None
) -> Reason:
    """Return a reason about a cached object; `since` is an RFC 3339 time."""
    metadata = obj.metadata
    reference = ObjectReference(
        kind=resource.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        api_version=resource.api_version,
    )
    return Reason(waiting_for, parse_time(since) if since else None, reference)


def log_reasons(outcome: "Outcome", logger: Logger) -> None:
    """Log what an object waits for, at ``-v=4``."""
    if not isinstance(outcome, Done) or not outcome.reasons:
        return
    log = logger.v(4)
    for reason in outcome.reasons:
        about = reason.object
        log.info(
            "Waiting",
            waiting_for=reason.waiting_for,
            since=reason.since,
            kind=about.kind,
            object=f"{about.namespace}/{about.name}",
        )


class SyncError(Exception):
    """A sync that failed for a reason that a user understands.

    The key is retried as after any failure. The error is logged without a traceback.

    >>> raise SyncError("the website has no certificate yet")
    Traceback (most recent call last):
    SyncError: the website has no certificate yet
    """


class Done(Struct, frozen=True):
    """The key needs nothing more until it is added again.

    `requeue_after`, in seconds, adds it again at a known time. `reasons` say what the
    object still waits for.

    >>> DONE == Done()
    True
    >>> Done(30).requeue_after
    30
    """

    requeue_after: float | None = None
    reasons: tuple[Reason, ...] = ()


class Requeue(Struct, frozen=True):
    """The key cannot be synced yet; it is added again after `requeue_after` seconds.

    Unlike `Done` it leaves the key's failures as they are, so that waiting for
    a cache does not reset a backoff. `reason` appears in the log at ``-v=4``.

    >>> Requeue(5, "the certificate is being made").requeue_after
    5
    """

    requeue_after: float
    reason: str


class Failed(Struct, frozen=True):
    """The sync failed with `error`, and the key is retried with a backoff.

    `requeue_after`, in seconds, is the time at which the object needs a sync whether
    or not this one failed: a deadline, the next run, a pod that becomes available. The
    earlier of the two times counts.
    """

    error: Exception
    requeue_after: float | None = None


Outcome = Done | Requeue | Failed
"""A reconcile that knows no such time raises its error, which is `Failed(error)`."""

DONE: Final = Done()


def earliest(*seconds: float | None) -> float | None:
    """Return the least of the times that are known, `None` if none is."""
    return min((each for each in seconds if each is not None), default=None)


async def failure_of(
    writes: Awaitable[object], requeue_after: float | None
) -> Failed | None:
    """Await writes; return `None`, or the failure that keeps the time of a sync."""
    try:
        await writes
    except Exception as error:  # noqa: BLE001 - the worker reports it
        return Failed(error, requeue_after)
    return None


def failure_outcome(error: Exception) -> Literal["refused", "error"]:
    """Return the outcome of a failed sync, as the metrics of syncs name it.

    It is refused if only the owner of an object can mend it (`is_refusal`).
    """
    return "refused" if is_refusal(error) else "error"


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
