"""The requests of clients, to assert on, and the layer that applies faults to them."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from enum import Enum, auto
from typing import Any, Final, Self, TypedDict, Unpack

import msgspec
from msgspec import Struct

from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver import request_info
from controller_manager.devcluster.apiserver.kind import ALL_VERBS
from controller_manager.devcluster.apiserver.negotiation import header
from controller_manager.devcluster.apiserver.reading import Frame, frame_of
from controller_manager.devcluster.apiserver.responses import Upgrade
from controller_manager.devcluster.apiserver.security import Attributes
from controller_manager.devcluster.http_server import (
    Answer,
    Answering,
    ConnectionCutError,
    Interceptor,
)
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.devcluster.scheme.statuses import expired

from . import ClusterError

# The selection of requests

VERBS: Final = ALL_VERBS


class Which(TypedDict, total=False):
    """The requests that a fault meets; absent keys select all requests.

    - `verbs`: one of :data:`VERBS`, or several.
    - `resource`: ``pods`` with its subresources, ``pods/status``, ``deployments.apps``.
    - `namespace` and `name`: those of the object.
    - `user_agent`: a part of the header User-Agent, which tells clients apart.
    """

    verbs: str | Sequence[str]
    resource: str
    namespace: str
    name: str
    user_agent: str


class RequestFilter(Struct, frozen=True, kw_only=True):
    """Selects requests; an empty field selects all."""

    verbs: tuple[str, ...] = ()
    resource: str = ""
    namespace: str = ""
    name: str = ""
    user_agent: str = ""
    goes_on: bool = False
    """True if it selects only requests that continue from a version or a token."""

    def matches(self, request: Request) -> bool:
        """Tell whether a request is selected."""
        agent = header(request.headers, "user-agent")
        if self.user_agent not in agent or (self.goes_on and not _version_of(request)):
            return False
        return self.picks(attributes_of_request(request))

    def picks(self, attributes: Attributes | None) -> bool:
        """Tell whether a request about a resource is selected, `None` for another."""
        if attributes is None:
            return not (self.verbs or self.resource or self.namespace or self.name)
        return (
            (not self.verbs or attributes.verb in self.verbs)
            and self.selects(attributes)
            and self.namespace in ("", attributes.namespace)
            and self.name in ("", attributes.name)
        )

    def selects(self, attributes: Attributes) -> bool:
        """Tell whether a resource is selected."""
        wanted, _, part = self.resource.partition("/")
        plural, _, group = wanted.partition(".")
        return (
            plural in ("", attributes.resource)
            and group in ("", attributes.group)
            and part in ("", attributes.subresource)
        )


def make_filter(
    which: Which, default_verbs: Sequence[str] = (), *, goes_on: bool = False
) -> RequestFilter:
    """Return the filter of `which`; raises ClusterError for an unknown verb.

    Raises TypeError for an unknown keyword.
    """
    verbs = which.get("verbs", default_verbs)
    chosen = (verbs,) if isinstance(verbs, str) else tuple(verbs)
    for verb in chosen:
        if verb not in VERBS:
            msg = f"verbs: there is no verb {verb!r}; the verbs are {', '.join(VERBS)}"
            raise ClusterError(msg)
    rest = {name: value for name, value in which.items() if name != "verbs"}
    return RequestFilter(verbs=chosen, goes_on=goes_on, **rest)  # type: ignore[arg-type]


def _version_of(request: Request) -> str:
    """Return the version or token from which a request continues, empty for none."""
    query = dict(request.query)
    version = query.get("continue") or query.get("resourceVersion", "")
    return "" if version == "0" else version


def attributes_of_request(request: Request) -> Attributes | None:
    """Return the attributes of a request, `None` if it names no resource."""
    attributes = request_info.attributes_of_request(
        request.method, request.path, request.query
    )
    return None if attributes.path else attributes


# The log, in the thread of the cluster

MOST: Final = 10_000
"""The requests that a cluster keeps."""


class RecordedRequest(Struct, frozen=True, kw_only=True):
    """One request, and the code of its answer.

    `resource` is ``pods`` or ``deployments.apps``, empty for a path that is none.
    `name` is that of the new object for a create. `code` is 0 if the connection was
    cut.
    """

    user: str
    verb: str
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    code: int = 0
    path: str = ""
    user_agent: str = ""

    def __str__(self) -> str:
        """Return for example ``update pods/status shop/web by admin: 200``."""
        what = "/".join(filter(None, (self.resource, self.subresource))) or self.path
        where = "/".join(filter(None, (self.namespace, self.name)))
        return f"{self.verb} {what} {where}".rstrip() + f" by {self.user}: {self.code}"

    @property
    def attributes(self) -> Attributes:
        """The request as an authorizer sees it."""
        plural, _, group = self.resource.partition(".")
        return Attributes(
            self.verb,
            group=group,
            resource=plural,
            subresource=self.subresource,
            namespace=self.namespace,
            name=self.name,
        )


class RequestLog:
    """The last requests, in the order of their answers."""

    def __init__(self) -> None:
        self.requests: deque[RecordedRequest] = deque(maxlen=MOST)

    def record(self, request: Request, user: str, answer: Answer | None) -> None:
        """Record a request of a user, without an answer if the connection was cut."""
        about = request_info.attributes_of_request(
            request.method, request.path, request.query
        )
        name = about.name
        if about.verb == "create" and not name and isinstance(answer, Response):
            name = _name_in(answer.body) or _name_in(request.body or b"")
        resource = f"{about.resource}.{about.group}" if about.group else about.resource
        self.requests.append(
            RecordedRequest(
                user=user,
                verb=about.verb,
                resource=resource,
                subresource=about.subresource,
                namespace=about.namespace,
                name=name,
                code=answer.status if answer is not None else 0,
                path=request.path,
                user_agent=header(request.headers, "user-agent"),
            )
        )


class _Metadata(Struct):
    name: str = ""


class _Object(Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def _name_in(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Object).metadata.name
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


# The list for a test, in any thread

WRITES: Final = ("create", "delete", "deletecollection", "patch", "update")
"""The verbs of requests that change objects."""


class Requests:
    """The requests of clients on the network, in the order of their answers.

    A cluster keeps the last 10,000. A watch is recorded when it begins. The nodes and
    controllers of the cluster do not use the network: their requests are not there.
    Methods may be called in any thread.
    """

    def __init__(
        self, call: Callable[[Callable[[], Any]], Any], log: RequestLog
    ) -> None:
        """Take the log, and the function that calls another in the cluster's thread."""
        self._call = call
        self._log = log

    def __iter__(self) -> Iterator[RecordedRequest]:
        """Iterate over the requests so far."""
        return iter(self._all())

    def __len__(self) -> int:
        """Return the number of requests so far."""
        return len(self._all())

    def of(self, user: str = "", **which: Unpack[Which]) -> list[RecordedRequest]:
        """Return the requests of a user, or of all, that the keywords select.

        The keywords are those of the faults. Raises ClusterError for an unknown verb.
        """
        wanted = make_filter(which)
        return [
            each
            for each in self._all()
            if user in ("", each.user)
            and wanted.picks(each.attributes if each.resource else None)
            and wanted.user_agent in each.user_agent
        ]

    def writes(self, user: str = "", **which: Unpack[Which]) -> list[RecordedRequest]:
        """Return the requests that change objects, as `of` selects them."""
        which.setdefault("verbs", WRITES)
        return self.of(user, **which)

    def clear(self) -> None:
        """Forget the requests so far."""
        self._call(self._log.requests.clear)

    def _all(self) -> Sequence[RecordedRequest]:
        found: Sequence[RecordedRequest] = self._call(lambda: [*self._log.requests])
        return found


# Open watches


def gone_event(request: Request, oldest: int, frame: Frame) -> bytes:
    """Return the event that tells a watch that its version is gone."""
    message = f"too old resource version: {_version_of(request) or 0} ({oldest})"
    return frame.error(expired(message).status())


class Ending(Enum):
    """The ways in which a watch ends."""

    CLOSED = auto()
    """The stream ends as after its timeout."""
    CUT = auto()
    """The connection is cut."""
    EXPIRED = auto()
    """The last event is an error 410: the client must list again."""
    SILENT = auto()
    """The connection stays open, and no further event comes."""


class _OpenWatch(StreamingResponse):
    """Passes a stream on until a fault ends it."""

    def __init__(
        self,
        request: Request,
        answer: StreamingResponse,
        on_close: Callable[["_OpenWatch"], None],
    ) -> None:
        """Take the stream; `on_close` is called after the last read."""
        super().__init__(self._passed(), answer.headers, answer.status)
        self.request = request
        self._answer = answer
        self._on_close = on_close
        self._ending: asyncio.Future[tuple[Ending, int]] = (
            asyncio.get_running_loop().create_future()
        )
        self._is_cut = asyncio.Event()

    def end(self, ending: Ending, oldest: int) -> None:
        """End the stream; `oldest` is the oldest version that is not gone.

        A silent one can still be cut.
        """
        if ending is Ending.CUT:
            self._is_cut.set()
        if not self._ending.done():
            self._ending.set_result((ending, oldest))

    async def _passed(self) -> AsyncGenerator[bytes, None]:
        """Yield pieces of the stream; raises ConnectionCutError if it is cut."""
        async with aclosing(self._answer.chunks()) as chunks:
            while (chunk := await self._next(chunks)) is not None:
                yield chunk
        if not self._ending.done():
            return
        ending, oldest = self._ending.result()
        match ending:
            case Ending.CUT:
                raise ConnectionCutError
            case Ending.EXPIRED:
                frame = frame_of(self.headers["content-type"])
                yield gone_event(self.request, oldest, frame)
            case Ending.SILENT:
                await self._is_cut.wait()  # or until the client disconnects
                raise ConnectionCutError

    async def _next(self, chunks: AsyncGenerator[bytes, None]) -> bytes | None:
        """Return the next piece, `None` at each kind of end of the stream."""
        if self._ending.done():
            return None
        coming = asyncio.ensure_future(anext(chunks, None))
        try:
            await asyncio.wait(
                (coming, self._ending), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            if self._ending.done() or not coming.done():
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
        return None if self._ending.done() else coming.result()

    async def close(self) -> None:
        """Stop the stream."""
        self._on_close(self)
        await self._answer.close()


# Faults of requests


class Fault:
    """Meets the requests that it selects, until it is used up or removed.

    As a context manager it is removed when it is left.
    """

    def __init__(
        self, which: RequestFilter, act: Interceptor, times: int | None = None
    ) -> None:
        """Take the filter, the effect, and the most requests (`None`: all)."""
        self._which = which
        self._act = act
        self._left = times
        self.count = 0
        """The number of requests that it has met."""

    @property
    def is_active(self) -> bool:
        """True if it meets the next selected request."""
        return self._left is None or self._left > 0

    def remove(self) -> None:
        """Meet no more requests."""
        self._left = 0

    def __enter__(self) -> Self:
        """Return the fault, which has begun already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove it."""
        self.remove()

    async def intercept(self, request: Request, answer: Answering) -> Answer:
        """Answer a request; one that is not selected is passed on."""
        if not self.is_active or not self._which.matches(request):
            return await answer(request)
        self.count += 1
        if self._left is not None:
            self._left -= 1
        return await self._act(request, answer)


# The layer


class FaultLayer:
    """Applies faults to requests, in the order in which they were added.

    It knows every watch that is open. It is used in the thread of the cluster only.
    """

    def __init__(self) -> None:
        """Start without faults."""
        self._faults: list[Fault] = []
        self._watches: dict[_OpenWatch, None] = {}

    def add(self, fault: Fault) -> None:
        """Apply a fault from now on."""
        self._faults.append(fault)

    def clear(self) -> None:
        """Remove all faults."""
        for fault in self._faults:
            fault.remove()
        self._faults.clear()

    def end_watches(self, which: RequestFilter, ending: Ending, oldest: int) -> int:
        """End the open watches that are selected; return their number.

        `oldest` is the oldest version that is not gone.
        """
        chosen = [each for each in self._watches if which.matches(each.request)]
        for watch in chosen:
            watch.end(ending, oldest)
        return len(chosen)

    async def __call__(self, request: Request, answer: Answering) -> Answer:
        """Answer a request through all faults; the first one is the outermost."""
        self._faults = [fault for fault in self._faults if fault.is_active]
        for fault in reversed(self._faults):
            answer = _through(fault.intercept, answer)
        found = await answer(request)
        if isinstance(found, Response | Upgrade) or _is_proxied(request):
            return found
        watch = _OpenWatch(request, found, self._closed)
        self._watches[watch] = None
        return watch

    def _closed(self, watch: _OpenWatch) -> None:
        self._watches.pop(watch, None)


def _is_proxied(request: Request) -> bool:
    attributes = attributes_of_request(request)
    return attributes is not None and attributes.subresource == "proxy"


def _through(fault: Interceptor, answer: Answering) -> Answering:
    async def through(request: Request) -> Answer:
        return await fault(request, answer)

    return through
