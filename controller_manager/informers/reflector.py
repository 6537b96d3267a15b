"""The reflector: keeps a cache equal to the server's objects by list and watch."""

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import aclosing
from enum import Enum
from http import HTTPStatus
from typing import Final, Generic, Protocol, TypeVar

from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.core.v1 import NODES
from controller_manager.api.meta import (
    KubeObject,
    Resource,
    key_of,
    resource_version_number,
)
from controller_manager.client.rest import errors, serializer
from controller_manager.client.rest.client import (
    BUSY_IDLE_TIMEOUT,
    IDLE_TIMEOUT,
    Client,
    ListOptions,
    WatchOptions,
)
from controller_manager.observability.defects import Defects
from controller_manager.observability.logs import Logger

ObjectT = TypeVar("ObjectT", bound=KubeObject)
ReadT_contra = TypeVar("ReadT_contra", bound=KubeObject, contravariant=True)

_MIN_WATCH_SECONDS: Final = 300
"""Minimum duration of a watch: 5 to 10 minutes, so that reconnects are spread."""

_WRITTEN_OFTEN: Final = (NODES.group_resource, LEASES.group_resource)
"""Resources whose watches are rarely silent as long as the connection works."""

_EVENTS_PER_TURN: Final = 100
"""The number of events that are processed before other tasks get their turn."""

_SHORT_WATCH: Final = 1.0
"""A watch that was open for fewer seconds is resumed only after a backoff."""

_STREAMING_UNSUPPORTED: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.NOT_IMPLEMENTED,
)
"""Answers of a server that does not support streamed lists; no retry follows."""

_BACKOFF_BASE: Final = 0.8
_BACKOFF_CAP: Final = 30.0
_BACKOFF_RESET: Final = 120.0
"""Seconds without a failure after which the backoff starts again."""


class Sink(Protocol[ReadT_contra]):
    """Receives the objects of a reflector (the shared informer)."""

    async def replaced(
        self, objects: Mapping[str, ReadT_contra], resource_version: str
    ) -> None:
        """Take a complete list, by key: objects that it lacks are deleted."""

    def changed(self, obj: ReadT_contra) -> None:
        """Take a new or changed object."""

    def deleted(self, obj: ReadT_contra) -> None:
        """Take the last state of a deleted object."""

    def advanced(self, resource_version: str) -> None:
        """Record that all changes up to this version have been delivered."""

    def receiving(self, events: int) -> None:
        """Record that this many events have arrived and will be delivered now."""

    def received(self, events: int) -> None:
        """Record that these events have been delivered."""


class WatchMetrics(Protocol):
    """Hooks that a reflector calls."""

    def restarted(self, cause: str) -> None:
        """Count a watch that starts after another one, by what ended that one."""

    def relisted(self, cause: str) -> None:
        """Count a relist, by its cause."""


class State(Enum):
    """The states of a reflector."""

    STREAM_INITIAL = "streaming the initial list"
    LIST_INITIAL = "listing"
    WATCH = "watching"


class Reflector(Generic[ObjectT]):
    """Lists, then watches, for ever.

    The states: STREAM_INITIAL reads the initial list from the watch itself
    (``sendInitialEvents``) and continues to watch on the same stream. When that
    fails, LIST_INITIAL reads pages; if the server does not support streamed lists,
    it always does so. WATCH resumes from the last version, so after a clean end no
    event is repeated. If the server allows list but not watch, the reflector lists
    again and again.

    Its promises:

    - An expired version (410) and unreadable data on the stream lead to a relist.
    - A relist is never older than the cache: if an API server is behind, the list is
      read again.
    - Events of versions that were delivered before are dropped.
    - A stream that sends nothing for 75 seconds counts as broken; one of nodes or
      leases, for 35 seconds. The watch is resumed from its last version.
    - An object that breaks the transform is delivered, and so are all others. After
      any other unexpected exception everything is listed again.
    - Failures are retried for ever, with exponential backoff from 0.8 to 30 s and
      jitter; but a watch that was open for a second or longer is resumed at once.
    """

    def __init__(  # noqa: PLR0913 - one for each thing that it reports to
        self,
        client: Client,
        resource: Resource[ObjectT],
        sink: Sink[ObjectT],
        *,
        stream_lists: bool = True,
        rng: random.Random,
        logger: Logger,
        metrics: WatchMetrics,
        defects: Defects,
        transform: Callable[[ObjectT], None],
    ) -> None:
        """`transform` makes each object smaller as soon as it is decoded.

        If a list of 100,000 objects were trimmed only at its end, the process would
        keep the memory.
        """
        self.transform = transform
        self.decoder: serializer.EventDecoder[ObjectT] | None = None
        """The decoder of watches, if it is not that of the resource's type."""
        self._metrics = metrics
        self._defects = defects
        self._failing_since: float | None = None
        self._last_error: Exception | None = None
        self._client = client
        self._resource = resource
        self._sink = sink
        self._rng = rng
        self._logger = logger
        self._can_stream = stream_lists
        self._idle_timeout = (
            BUSY_IDLE_TIMEOUT
            if resource.group_resource in _WRITTEN_OFTEN
            else IDLE_TIMEOUT
        )
        self._state = self._initial_state()
        self._resource_version = ""
        self._version = 0
        self._failures = 0
        self._wants_quorum_read = False
        self._established_at: float | None = None

    @property
    def state(self) -> State:
        """The state of the reflector."""
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
            except errors.RequestError as error:
                retry_at_once = self._failed(error)
            except Exception as error:  # noqa: BLE001 - it must not end other watches
                self._broke(error)
                retry_at_once = False
            if retry_at_once:
                continue
            if loop.time() - started > _BACKOFF_RESET:
                self._failures = 0
            await asyncio.sleep(self._backoff())

    def _broke(self, error: Exception) -> None:
        """Choose the next state after an unexpected exception: read everything again.

        It is unknown which objects have reached the sink.
        """
        self._defects.report("reflector", error, resource=self._name)
        self._record_failure("defect", error)
        self._metrics.relisted("defect")
        self._state = self._initial_state()

    def _failed(self, error: errors.RequestError) -> bool:
        """Choose the next state after a failure; tell whether to retry at once."""
        self._record_failure(_cause_of(error), error)
        match self._state:
            case State.STREAM_INITIAL:
                return self._initial_stream_failed(error)
            case State.LIST_INITIAL:
                self._list_failed(error)
                return False
            case State.WATCH:
                return self._watch_failed(error)

    def _initial_stream_failed(self, error: errors.RequestError) -> bool:
        """Fall back to pages, unless a retry of the stream is better (watchList)."""
        if isinstance(error, errors.Gone):
            # The server does not have the minimum version any more.
            self._wants_quorum_read = True
            self._relist("the version has expired", "expired", error)
            return False
        if isinstance(
            error, errors.NotSent | errors.TooManyRequests
        ) or _is_too_large_version(error):
            self._handle_too_large_version(error)
            self._logger.warning("List failed", resource=self._name, err=str(error))
            return False
        if isinstance(error, errors.APIError) and error.code in _STREAMING_UNSUPPORTED:
            self._can_stream = False
        self._logger.v(2).info(
            "Cannot stream the list, reading pages",
            resource=self._name,
            err=str(error),
        )
        self._state = State.LIST_INITIAL
        return True

    def _list_failed(self, error: errors.RequestError) -> None:
        self._handle_too_large_version(error)
        self._logger.warning("List failed", resource=self._name, err=str(error))
        self._state = self._initial_state()

    def _watch_failed(self, error: errors.RequestError) -> bool:
        """Resume or relist; resume at once if the watch was open for a while.

        Many proxies close idle connections. If the reflector waited after each such
        end, a resource with few changes would often not be watched.
        """
        if isinstance(error, errors.Gone):
            self._relist("the version has expired", "expired", error)
            return False
        if isinstance(error, errors.ProtocolError):
            self._relist("the stream is not readable", "garbage", error)
            return False
        self._handle_too_large_version(error)
        if isinstance(error, errors.APIError) and not _is_retriable(error):
            # The role may allow list and not watch: then only lists are used.
            self._logger.error("Watch refused", resource=self._name, err=str(error))
            self._state = self._initial_state()
            return False
        if self._state is State.WATCH and self._watch_was_long():
            self._logger.v(2).info(
                "Watch closed, resuming", resource=self._name, err=str(error)
            )
            self._failures = 0
            return True
        self._logger.warning("Watch interrupted", resource=self._name, err=str(error))
        return False

    def _watch_was_long(self) -> bool:
        if self._established_at is None:
            return False
        return asyncio.get_running_loop().time() - self._established_at >= _SHORT_WATCH

    @property
    def _name(self) -> str:
        return self._resource.group_resource

    def failing_for(self, now: float) -> tuple[float, Exception] | None:
        """Return for how many seconds reads have failed, and the last error.

        `now` is the running loop's time. `None` if the last read succeeded.
        """
        if self._failing_since is None or self._last_error is None:
            return None
        return now - self._failing_since, self._last_error

    def _record_failure(self, cause: str, error: Exception) -> None:
        self._metrics.restarted(cause)
        self._last_error = error
        if self._failing_since is None:
            self._failing_since = asyncio.get_running_loop().time()

    def _clear_failure(self) -> None:
        self._failing_since = self._last_error = None

    def _relist(self, why: str, cause: str, error: Exception) -> None:
        self._metrics.relisted(cause)
        self._logger.warning("Relisting", resource=self._name, why=why, err=str(error))
        self._state = self._initial_state()

    @property
    def _minimum_version(self) -> str:
        """The lowest version that a relist may have, empty for a quorum read."""
        return "" if self._wants_quorum_read else self._resource_version

    def _handle_too_large_version(self, error: Exception) -> None:
        """Use a quorum read next, if the server has not reached the known version.

        Either this server is behind etcd: a quorum read is not. Or etcd was restored
        from a backup: then its lower version is correct.
        """
        if _is_too_large_version(error):
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
        """Execute the current state; tell whether a watch ended cleanly."""
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
            resource_version=self._minimum_version
            if initial
            else self._resource_version,
            timeout_seconds=seconds,
            send_initial_events=initial,
            field_selector=self._resource.field_selector,
            idle_timeout=self._idle_timeout,
        )

    async def _stream_initial(self) -> None:
        """Collect the initial events, deliver them as one list, continue to watch."""
        initial: dict[str, ObjectT] | None = {}
        options = self._watch_options(initial=True)
        stream = self._client.watch(
            self._resource, options=options, decoder=self.decoder
        )
        async with aclosing(stream):
            async for batch in stream:
                if initial is None:
                    await self._deliver_all(batch)
                    continue
                for number, event in enumerate(batch):
                    if (
                        isinstance(event, serializer.Bookmark)
                        and event.ends_initial_events
                    ):
                        listed, initial = initial, None
                        await self._complete(listed, event.resource_version)
                        await self._deliver_all(batch[number + 1 :])
                        break
                    self._collect_initial(initial, event)
                await _yield_after_many(len(batch))
        if initial is not None:
            msg = "the stream ended before its initial list was complete"
            raise errors.TransportError(msg)

    async def _list_initial(self) -> None:
        known = self._minimum_version
        options = ListOptions(
            field_selector=self._resource.field_selector,
            resource_version=known,
            resource_version_match="NotOlderThan" if known else "",
        )
        objects: dict[str, ObjectT] = {}
        version = ""
        try:
            async for page in self._client.list_all(self._resource, options=options):
                await self._add_page(objects, page.items)
                version = page.resource_version
        except errors.Gone:
            # The version of the pages, or the minimum version, has expired. Read the
            # whole list in one request, by a quorum read.
            self._wants_quorum_read = True
            options = ListOptions(field_selector=self._resource.field_selector)
            whole = await self._client.list_page(self._resource, options=options)
            objects, version = {}, whole.resource_version
            await self._add_page(objects, whole.items)
        await self._complete(objects, version)

    def _make_smaller(self, obj: ObjectT) -> None:
        """Transform an object; one that breaks the transform stays as far as it got.

        Each step of a transform drops an unused field or shares an equal part. If the
        object were left out instead, controllers would conclude that it does not exist.
        """
        try:
            self.transform(obj)
        except Exception as error:  # noqa: BLE001 - it concerns this object only
            self._defects.report(
                "transform", error, resource=self._name, object=key_of(obj)
            )

    async def _add_page(
        self, objects: dict[str, ObjectT], items: list[ObjectT]
    ) -> None:
        """Add the objects of a page, which may be a list of 100,000, in slices."""
        for start in range(0, len(items), _EVENTS_PER_TURN):
            some = items[start : start + _EVENTS_PER_TURN]
            self._add_listed(objects, some)
            await _yield_after_many(len(some))

    def _add_listed(self, objects: dict[str, ObjectT], items: list[ObjectT]) -> None:
        for obj in items:
            self._make_smaller(obj)
            objects[key_of(obj)] = obj

    def _collect_initial(
        self, initial: dict[str, ObjectT], event: serializer.WatchEvent[ObjectT]
    ) -> None:
        match event:
            case serializer.Added(object=obj) | serializer.Modified(object=obj):
                self._add_listed(initial, [obj])
            case serializer.Deleted(object=obj):
                initial.pop(key_of(obj), None)
            case serializer.Bookmark():
                pass  # a bookmark before the end of the initial list has no effect

    async def _complete(
        self, objects: dict[str, ObjectT], resource_version: str
    ) -> None:
        known = resource_version_number(self._minimum_version)
        if resource_version_number(resource_version) < known:
            msg = (
                f"the server's list is of version {resource_version}, older than "
                f"{self._resource_version}, which was seen already"
            )
            # This API server is behind etcd, or etcd was restored from a backup.
            self._wants_quorum_read = True
            raise errors.TransportError(msg)
        await self._sink.replaced(objects, resource_version)
        self._wants_quorum_read = False
        self._clear_failure()
        self._set_version(resource_version, resource_version_number(resource_version))
        self._state = State.WATCH
        self._established_at = asyncio.get_running_loop().time()

    async def _watch(self) -> None:
        options = self._watch_options(initial=False)
        stream = self._client.watch(
            self._resource, options=options, decoder=self.decoder
        )
        loop = asyncio.get_running_loop()
        started, seen = loop.time(), 0
        async with aclosing(stream):
            async for batch in stream:
                seen += len(batch)
                if self._established_at is None:
                    self._established_at = loop.time()
                self._clear_failure()
                await self._deliver_all(batch)
        if not seen and loop.time() - started < _SHORT_WATCH:
            # The server ends every watch at once: do not reconnect in a fast loop.
            msg = "the watch ended at once, without an event"
            raise errors.TransportError(msg)

    async def _deliver_all(self, batch: list[serializer.WatchEvent[ObjectT]]) -> None:
        self._sink.receiving(len(batch))
        for event in batch:
            self._deliver(event)
        self._sink.received(len(batch))
        await _yield_after_many(len(batch))

    def _deliver(self, event: serializer.WatchEvent[ObjectT]) -> None:
        if isinstance(event, serializer.Bookmark):
            version = event.resource_version
            number = resource_version_number(version)
            if number > self._version or not number:
                self._advance(version, number)
            return
        version = event.object.metadata.resource_version
        number = resource_version_number(version)
        # Versions of an aggregated API may be no numbers (0): they cannot be compared.
        if number and number <= self._version:
            self._logger.v(4).info(
                "Old event dropped", resource=self._name, version=version
            )
            return
        match event:
            case serializer.Added(object=obj) | serializer.Modified(object=obj):
                self._make_smaller(obj)
                self._sink.changed(obj)
            case serializer.Deleted(object=obj):
                self._sink.deleted(obj)
        self._advance(version, number)

    def _advance(self, resource_version: str, number: int) -> None:
        self._set_version(resource_version, number)
        self._sink.advanced(resource_version)

    def _set_version(self, resource_version: str, number: int) -> None:
        """Keep both forms: parsing the number took a tenth of the time of an event."""
        self._resource_version = resource_version
        self._version = number


def _cause_of(error: errors.RequestError) -> str:
    match error:
        case errors.Gone():
            return "expired"
        case errors.ProtocolError():
            return "garbage"
        case errors.RequestTimeout():
            return "timeout"
    return "error"


def _is_too_large_version(error: Exception) -> bool:
    """Tell whether the server has not reached the requested version yet."""
    details = error.status.details if isinstance(error, errors.APIError) else None
    causes = details.causes or () if details is not None else ()
    return any(cause.reason == "ResourceVersionTooLarge" for cause in causes)


def _is_retriable(error: errors.APIError) -> bool:
    """Tell whether the same request may succeed a moment later."""
    return (
        isinstance(error, errors.TooManyRequests)
        or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
    )


async def _yield_after_many(events: int) -> None:
    """Give other tasks a turn after many events: the next ones may already be there.

    After a few events the reflector waits anyway. An extra turn after each batch made
    a rollout a fifth more expensive.
    """
    if events >= _EVENTS_PER_TURN:
        await asyncio.sleep(0)
