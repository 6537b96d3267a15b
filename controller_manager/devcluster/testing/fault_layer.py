"""The layer between the network and the API server that applies the faults."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from enum import Enum, auto
from types import TracebackType
from typing import Self

from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver.responses import Upgrade
from controller_manager.devcluster.apiserver.watching import Frame, frame_of
from controller_manager.devcluster.http_server import (
    Answer,
    Answering,
    ConnectionCutError,
    Interceptor,
)
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.devcluster.scheme.statuses import expired

from .requests import RequestFilter, attributes_of_request, version_of

# Open watches


def gone_event(request: Request, oldest: int, frame: Frame) -> bytes:
    """Return the event that tells a watch that its version is gone."""
    message = f"too old resource version: {version_of(request) or 0} ({oldest})"
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


class OpenWatch:
    """Passes a stream on until a fault ends it."""

    def __init__(
        self,
        request: Request,
        answer: StreamingResponse,
        on_close: Callable[["OpenWatch"], None],
    ) -> None:
        """Take the stream; `on_close` is called after the last read."""
        self.request = request
        self._answer = answer
        self._on_close = on_close
        self._ending: asyncio.Future[tuple[Ending, int]] = (
            asyncio.get_running_loop().create_future()
        )

    @property
    def status(self) -> int:
        """The HTTP status code."""
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case name."""
        return self._answer.headers

    def end(self, ending: Ending, oldest: int) -> None:
        """End the stream; `oldest` is the oldest version that is not gone."""
        if not self._ending.done():
            self._ending.set_result((ending, oldest))

    async def chunks(self) -> AsyncGenerator[bytes, None]:
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
                await asyncio.Event().wait()  # until the client disconnects

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
            if not coming.done():
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
        return None if coming.cancelled() else coming.result()

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
        self._watches: dict[OpenWatch, None] = {}

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
        watch = OpenWatch(request, found, self._closed)
        self._watches[watch] = None
        return watch

    def _closed(self, watch: OpenWatch) -> None:
        self._watches.pop(watch, None)


def _is_proxied(request: Request) -> bool:
    """Tell whether a program beside the cluster answers a request."""
    attributes = attributes_of_request(request)
    return attributes is not None and attributes.subresource == "proxy"


def _through(fault: Interceptor, answer: Answering) -> Answering:
    async def through(request: Request) -> Answer:
        return await fault(request, answer)

    return through
