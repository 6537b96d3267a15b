"""Keeping a cache equal to the server's list, by watching it."""

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import aclosing
from enum import Enum
from http import HTTPStatus
from typing import Final, Generic, Protocol, TypeVar

from controller_manager.api.meta import (
    KubeObject,
    key_of,
    resource_version_number,
)
from controller_manager.api.resource import Resource
from controller_manager.client.client import Client, ListOptions, WatchOptions
from controller_manager.client.errors import (
    APIError,
    Gone,
    NotSent,
    ProtocolError,
    RequestTimeout,
    TooManyRequests,
    TransportError,
)
from controller_manager.client.watch import (
    Added,
    Bookmark,
    Deleted,
    Modified,
    WatchEvent,
)
from controller_manager.observability.logs import Logger

ObjectT = TypeVar("ObjectT", bound=KubeObject)
TakenT_contra = TypeVar("TakenT_contra", bound=KubeObject, contravariant=True)

_MIN_WATCH_SECONDS: Final = 300
"""A watch is asked to last 5 to 10 minutes, so that watches spread."""

_MANY: Final = 100
"""Events after which others get their turn."""

_SHORT: Final = 1.0
"""Seconds for which a watch must have been open to be resumed without a pause."""

_NEVER_STREAMS: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.NOT_IMPLEMENTED,
)
"""What a server answers that does not know streamed lists: it is not asked again."""

_BACKOFF_BASE: Final = 0.8
_BACKOFF_CAP: Final = 30.0
_BACKOFF_RESET: Final = 120.0
"""Seconds of trouble-free watching after which backoff starts anew."""


class Sink(Protocol[TakenT_contra]):
    """Where a reflector puts what it sees (the shared informer)."""

    async def replaced(
        self, objects: Mapping[str, TakenT_contra], resource_version: str
    ) -> None:
        """Take a complete list, by key: what is not in it is gone."""

    def changed(self, obj: TakenT_contra) -> None:
        """Take a new or changed object."""

    def deleted(self, obj: TakenT_contra) -> None:
        """Take the last state of an object that is gone."""

    def advanced(self, resource_version: str) -> None:
        """Take note that everything up to this version has been delivered."""

    def receiving(self, events: int) -> None:
        """Take note that so many events have come, before they are delivered."""

    def received(self, events: int) -> None:
        """Take note that they have been delivered."""


class WatchMetrics(Protocol):
    """Hooks that a reflector calls."""

    def restarted(self, cause: str) -> None:
        """Count a watch that begins after another ended."""

    def relisted(self, cause: str) -> None:
        """Count a list that has to be read anew."""


class State(Enum):
    """Where a reflector is in its life."""

    STREAM_INITIAL = "streaming the initial list"
    LIST_INITIAL = "listing"
    WATCH = "watching"


class Reflector(Generic[ObjectT]):
    """Lists, then watches, for ever.

    The states: STREAM_INITIAL asks the watch itself for the initial list
    (``sendInitialEvents``) and goes on watching on the same stream. When that
    fails, LIST_INITIAL reads pages, for good if the server does not know how to
    stream. WATCH resumes from the last version seen: after a clean end nothing
    is replayed. Where only watching is refused, lists are read again and again.

    Its promises: a version that has expired (410) leads to a new list; so does
    garbage on the stream; a new list is never older than what was seen before,
    an API server that lags is asked again; events of versions already seen are
    dropped; silence for three minutes is a dead connection. Trouble is retried
    for ever, backed off exponentially from 0.8 to 30 s with jitter; but a watch
    that was open for a second or longer is resumed at once.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[ObjectT],
        sink: Sink[ObjectT],
        *,
        stream_lists: bool = True,
        rng: random.Random,
        logger: Logger,
        metrics: WatchMetrics,
        transform: Callable[[ObjectT], None],
    ) -> None:
        """Take what to watch and where to put it.

        `transform` makes an object smaller, at once: what a list of 100,000 would
        free only in the end stays with the process.
        """
        self.transform = transform
        self._metrics = metrics
        self._trouble_since: float | None = None
        self._trouble: Exception | None = None
        self._client = client
        self._resource = resource
        self._sink = sink
        self._rng = rng
        self._logger = logger
        self._can_stream = stream_lists
        self._state = self._initial_state()
        self._resource_version = ""
        self._version = 0
        self._failures = 0
        self._wants_quorum_read = False
        self._established_at: float | None = None

    @property
    def state(self) -> State:
        """Where the reflector is."""
        return self._state

    async def run(self) -> None:
        """Keep the sink up to date until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            self._established_at = None
            try:
                if await self._step():
                    self._metrics.restarted("ended")
                    self._failures = 0
                continue
            except (APIError, TransportError, ProtocolError) as error:
                goes_on_at_once = self._failed(error)
            if goes_on_at_once:
                continue
            if loop.time() - started > _BACKOFF_RESET:
                self._failures = 0
            await asyncio.sleep(self._backoff())

    def _failed(self, error: APIError | TransportError | ProtocolError) -> bool:
        """Decide how to go on after a failure; tell whether to go on at once."""
        self._note_trouble(_cause_of(error), error)
        match self._state:
            case State.STREAM_INITIAL:
                return self._initial_stream_failed(error)
            case State.LIST_INITIAL:
                self._list_failed(error)
                return False
            case State.WATCH:
                return self._watch_failed(error)

    def _initial_stream_failed(
        self, error: APIError | TransportError | ProtocolError
    ) -> bool:
        """Read pages instead, unless the next attempt is as good (watchList)."""
        if isinstance(error, Gone):
            # The version that is known is no longer one to ask for.
            self._wants_quorum_read = True
            self._relist("the version has expired", "expired", error)
            return False
        if isinstance(error, NotSent | TooManyRequests) or _is_too_new(error):
            self._note_version_too_large(error)
            self._logger.warning("List failed", resource=self._name, err=str(error))
            return False
        if isinstance(error, APIError) and error.code in _NEVER_STREAMS:
            self._can_stream = False
        self._logger.v(2).info(
            "The list is not streamed, reading pages",
            resource=self._name,
            err=str(error),
        )
        self._state = State.LIST_INITIAL
        return True

    def _list_failed(self, error: APIError | TransportError | ProtocolError) -> None:
        self._note_version_too_large(error)
        self._logger.warning("List failed", resource=self._name, err=str(error))
        self._state = self._initial_state()

    def _watch_failed(self, error: APIError | TransportError | ProtocolError) -> bool:
        """Resume, or list anew; at once if the watch had been open for a while.

        Many proxies cut what is idle. A pause after each cut would leave a quiet
        resource unwatched for much of the time.
        """
        if isinstance(error, Gone):
            self._relist("the version has expired", "expired", error)
            return False
        if isinstance(error, ProtocolError):
            self._relist("the stream is not readable", "garbage", error)
            return False
        self._note_version_too_large(error)
        if isinstance(error, APIError) and not _is_retriable(error):
            # Whoever may list and not watch is served by lists.
            self._logger.error("Watch refused", resource=self._name, err=str(error))
            self._state = self._initial_state()
            return False
        if self._state is State.WATCH and self._was_open_for_a_while():
            self._logger.v(2).info(
                "Watch cut, resuming", resource=self._name, err=str(error)
            )
            self._failures = 0
            return True
        self._logger.warning("Watch interrupted", resource=self._name, err=str(error))
        return False

    def _was_open_for_a_while(self) -> bool:
        """Tell whether the last watch was open for longer than a failure takes."""
        if self._established_at is None:
            return False
        return asyncio.get_running_loop().time() - self._established_at >= _SHORT

    @property
    def _name(self) -> str:
        return self._resource.group_resource

    def trouble_for(self, now: float) -> tuple[float, Exception] | None:
        """Return for how long (seconds) nothing has been read, and the last reason.

        `now` is the running loop's time. `None` while all is well.
        """
        if self._trouble_since is None or self._trouble is None:
            return None
        return now - self._trouble_since, self._trouble

    def _note_trouble(self, cause: str, error: Exception) -> None:
        self._metrics.restarted(cause)
        self._trouble = error
        if self._trouble_since is None:
            self._trouble_since = asyncio.get_running_loop().time()

    def _all_is_well(self) -> None:
        self._trouble_since = self._trouble = None

    def _relist(self, why: str, cause: str, error: Exception) -> None:
        self._metrics.relisted(cause)
        self._logger.warning(
            "Listing anew", resource=self._name, why=why, err=str(error)
        )
        self._state = self._initial_state()

    @property
    def _known_version(self) -> str:
        """The version that a new list must not be older than."""
        return "" if self._wants_quorum_read else self._resource_version

    def _note_version_too_large(self, error: Exception) -> None:
        """Ask for a quorum read next, if a server knows no version as high as ours.

        Either it lags, and then the quorum read does not; or the store was
        restored from a backup, and then its version is the truth.
        """
        if _is_too_new(error):
            self._metrics.relisted("too_large_version")
            self._wants_quorum_read = True
            self._state = self._initial_state()

    def _initial_state(self) -> State:
        return State.STREAM_INITIAL if self._can_stream else State.LIST_INITIAL

    def _backoff(self) -> float:
        delay = min(_BACKOFF_BASE * 2.0 ** min(self._failures, 32), _BACKOFF_CAP)
        self._failures += 1
        return delay * (1 + self._rng.random())

    async def _step(self) -> bool:
        """Go through one state; tell whether a watch came to its end."""
        match self._state:
            case State.STREAM_INITIAL:
                await self._stream_initial()
            case State.LIST_INITIAL:
                await self._list_initial()
                return False
            case State.WATCH:
                await self._watch()
        return True

    def _watch_options(self, *, initial: bool) -> WatchOptions:
        seconds = int(_MIN_WATCH_SECONDS * (1 + self._rng.random()))
        return WatchOptions(
            resource_version=self._known_version if initial else self._resource_version,
            timeout_seconds=seconds,
            send_initial_events=initial,
            field_selector=self._resource.field_selector,
        )

    async def _stream_initial(self) -> None:
        """Collect the initial events, hand them over at once, go on watching."""
        initial: dict[str, ObjectT] | None = {}
        options = self._watch_options(initial=True)
        stream = self._client.watch(self._resource, options=options)
        async with aclosing(stream):
            async for batch in stream:
                if initial is None:
                    await self._deliver_all(batch)
                    continue
                for number, event in enumerate(batch):
                    if isinstance(event, Bookmark) and event.ends_initial_events:
                        listed, initial = initial, None
                        await self._complete(listed, event.resource_version)
                        await self._deliver_all(batch[number + 1 :])
                        break
                    self._collect(initial, event)
                await _give_way(len(batch))
        if initial is not None:
            msg = "the stream ended before its initial list was complete"
            raise TransportError(msg)

    async def _list_initial(self) -> None:
        known = self._known_version
        options = ListOptions(
            field_selector=self._resource.field_selector,
            resource_version=known,
            resource_version_match="NotOlderThan" if known else "",
        )
        objects: dict[str, ObjectT] = {}
        version = ""
        try:
            async for page in self._client.list_all(self._resource, options=options):
                self._take(objects, page.items)
                version = page.resource_version
        except Gone:
            # Too slow for pages, some of which are out of date now, or the known
            # version is: all at once, by a quorum read.
            self._wants_quorum_read = True
            options = ListOptions(field_selector=self._resource.field_selector)
            whole = await self._client.list_page(self._resource, options=options)
            objects, version = {}, whole.resource_version
            self._take(objects, whole.items)
        await self._complete(objects, version)

    def _take(self, objects: dict[str, ObjectT], items: list[ObjectT]) -> None:
        for obj in items:
            self.transform(obj)
            objects[key_of(obj)] = obj

    def _collect(self, initial: dict[str, ObjectT], event: WatchEvent[ObjectT]) -> None:
        match event:
            case Added(object=obj) | Modified(object=obj):
                self._take(initial, [obj])
            case Deleted(object=obj):
                initial.pop(key_of(obj), None)
            case Bookmark():
                pass  # progress before the end of the initial list says nothing

    async def _complete(
        self, objects: dict[str, ObjectT], resource_version: str
    ) -> None:
        known = resource_version_number(self._known_version)
        if resource_version_number(resource_version) < known:
            msg = (
                f"the server's list is of version {resource_version}, older than "
                f"{self._resource_version}, which was seen already"
            )
            # A replica lags, which a quorum read does not; or versions began anew.
            self._wants_quorum_read = True
            raise TransportError(msg)
        await self._sink.replaced(objects, resource_version)
        self._wants_quorum_read = False
        self._all_is_well()
        self._note_version(resource_version, resource_version_number(resource_version))
        self._state = State.WATCH
        self._established_at = asyncio.get_running_loop().time()

    async def _watch(self) -> None:
        options = self._watch_options(initial=False)
        stream = self._client.watch(self._resource, options=options)
        loop = asyncio.get_running_loop()
        started, seen = loop.time(), 0
        async with aclosing(stream):
            async for batch in stream:
                seen += len(batch)
                if self._established_at is None:
                    self._established_at = loop.time()
                self._all_is_well()
                await self._deliver_all(batch)
        if not seen and loop.time() - started < _SHORT:
            # A server that ends every watch at once must not be hammered.
            msg = "the watch ended at once, with nothing"
            raise TransportError(msg)

    async def _deliver_all(self, batch: list[WatchEvent[ObjectT]]) -> None:
        self._sink.receiving(len(batch))
        for event in batch:
            self._deliver(event)
        self._sink.received(len(batch))
        await _give_way(len(batch))

    def _deliver(self, event: WatchEvent[ObjectT]) -> None:
        if isinstance(event, Bookmark):
            version = event.resource_version
            number = resource_version_number(version)
            if number > self._version or not number:
                self._advance(version, number)
            return
        version = event.object.metadata.resource_version
        number = resource_version_number(version)
        # Of an aggregated API's own kind of versions nothing is known but the last.
        if number and number <= self._version:
            self._logger.v(4).info(
                "Old event dropped", resource=self._name, version=version
            )
            return
        match event:
            case Added(object=obj) | Modified(object=obj):
                self.transform(obj)
                self._sink.changed(obj)
            case Deleted(object=obj):
                self._sink.deleted(obj)
        self._advance(version, number)

    def _advance(self, resource_version: str, number: int) -> None:
        self._note_version(resource_version, number)
        self._sink.advanced(resource_version)

    def _note_version(self, resource_version: str, number: int) -> None:
        """Keep both forms: making a number of it took a tenth of each event."""
        self._resource_version = resource_version
        self._version = number


def _cause_of(error: APIError | TransportError | ProtocolError) -> str:
    """Return what the metrics call a failure."""
    match error:
        case Gone():
            return "expired"
        case ProtocolError():
            return "garbage"
        case RequestTimeout():
            return "timeout"
    return "error"


def _is_too_new(error: Exception) -> bool:
    """Tell whether a server knows no version as high as the one that was asked for."""
    details = error.status.details if isinstance(error, APIError) else None
    causes = details.causes or () if details is not None else ()
    return any(cause.reason == "ResourceVersionTooLarge" for cause in causes)


def _is_retriable(error: APIError) -> bool:
    """Tell whether the same request may well be answered a moment later."""
    return (
        isinstance(error, TooManyRequests)
        or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
    )


async def _give_way(events: int) -> None:
    """Leave others their turn after many events: the next may be there already.

    Not after a few, which end with a wait anyway: a turn for each made a rollout
    cost a fifth more.
    """
    if events >= _MANY:
        await asyncio.sleep(0)
