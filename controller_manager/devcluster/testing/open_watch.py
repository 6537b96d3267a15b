"""An open watch, and its end by a fault."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from enum import Enum, auto

from controller_manager.client.rest.transport import Request
from controller_manager.devcluster.http_server import ConnectionCutError
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.devcluster.scheme.statuses import expired
from controller_manager.devcluster.server.watching import Frame, frame_of

from .request_filter import version_of


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
