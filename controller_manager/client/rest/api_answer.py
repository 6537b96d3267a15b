"""An answer with the methods of aiohttp's, for the callers of kubernetes_asyncio.

Its watches and its dynamic client read such answers, and so do its users.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Self

from multidict import CIMultiDict, CIMultiDictProxy

from .errors import ProtocolError, RequestTimeout
from .transport import LARGEST_ANSWER, Response, Stream


class CallTimeout(RequestTimeout, TimeoutError):
    """No answer in time, as the error of this client and as that of asyncio."""


class Content:
    """The body of an answer, with the methods of aiohttp's StreamReader that matter.

    A read that is cancelled ends the body: the next one finds its end.
    """

    def __init__(self, chunks: AsyncGenerator[bytes, None]) -> None:
        self._chunks = chunks
        self._buffer = bytearray()

    async def _more(self) -> bool:
        try:
            piece = await anext(self._chunks, b"")
        except RequestTimeout as error:
            raise CallTimeout(str(error)) from error
        self._buffer += piece
        return bool(piece)

    def _taken(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    async def readline(self) -> bytes:
        """Return the next line with its end; the rest at the end, and then nothing.

        Raises ProtocolError for a line that no object can be: it might never end.
        """
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > LARGEST_ANSWER:
                msg = f"a line of more than {LARGEST_ANSWER} bytes in an answer"
                raise ProtocolError(msg)
            if not await self._more():
                return self._taken(searched)
        return self._taken(end + 1)

    async def readany(self) -> bytes:
        """Return the bytes that have arrived, at least one; b"" at the end."""
        if not self._buffer:
            await self._more()
        return self._taken(len(self._buffer))

    async def read(self, n: int = -1) -> bytes:
        """Return at most `n` bytes, b"" at the end; without `n` the whole body."""
        if n < 0:
            while await self._more():
                pass
            return self._taken(len(self._buffer))
        if not self._buffer:
            await self._more()
        return self._taken(n)

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Yield the lines."""
        while line := await self.readline():
            yield line

    async def aclose(self) -> None:
        """Stop reading."""
        await self._chunks.aclose()


class Endings:
    """The streams that end in the background, because their callers do not wait."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def end(self, content: Content, stream: Stream) -> None:
        """End a stream soon."""
        task = self._loop.create_task(_ended(content, stream), name="end-of-answer")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def end_dropped(self, content: Content, stream: Stream) -> None:
        """End a stream soon; this may be called in any thread, and after the loop."""
        with suppress(RuntimeError):  # the loop is closed, and so are its connections
            self._loop.call_soon_threadsafe(self.end, content, stream)


class Answer:
    """An answer; a stream ends when it is released or dropped."""

    def __init__(self, answer: Response | Stream, endings: Endings) -> None:
        self._stream = None if isinstance(answer, Response) else answer
        self._endings = endings
        self._body: bytes | None = None
        self.status = answer.status
        self.reason = _phrase(answer.status)
        self.headers = CIMultiDictProxy(CIMultiDict(answer.headers))
        self.content = Content(
            _once(answer.body) if isinstance(answer, Response) else answer.chunks()
        )

    @property
    def ok(self) -> bool:
        """True if the status is below 400."""
        return self.status < HTTPStatus.BAD_REQUEST

    async def read(self) -> bytes:
        """Return the whole body; wait for the rest of it."""
        if self._body is None:
            self._body = await self.content.read()
        return self._body

    async def text(self, encoding: str = "utf-8") -> str:
        """Return the whole body as text."""
        return (await self.read()).decode(encoding)

    async def json(self, **_: object) -> Any:  # noqa: ANN401 - any JSON
        """Return the whole body, decoded from JSON, `None` for an empty one."""
        body = (await self.read()).strip()
        return json.loads(body) if body else None

    def release(self) -> None:
        """End the stream; its connection is closed unless the answer is whole."""
        stream, self._stream = self._stream, None
        if stream is not None:
            self._endings.end(self.content, stream)

    close = release

    async def __aenter__(self) -> Self:
        """Return this answer."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the stream."""
        self.release()

    def __del__(self) -> None:
        """End a stream that its reader has dropped."""
        if self._stream is not None:
            self._endings.end_dropped(self.content, self._stream)


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


async def _ended(content: Content, stream: Stream) -> None:
    await content.aclose()
    await stream.close()


def _phrase(status: int) -> str:
    """Return the words for a status, as servers write them behind it."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
