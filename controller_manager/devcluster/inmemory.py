"""A transport that calls a server in the same process, and streams of pieces."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol

from controller_manager.client.rest.errors import RequestTimeout
from controller_manager.client.rest.transport import Request, Response, Stream


class StreamingResponse:
    """An answer whose body is sent piece by piece, such as that to a watch."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        headers: Mapping[str, str],
        status: int = 200,
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Take the headers by lower-case name.

        `close` frees what the stream holds, also if nobody has read a piece.
        """
        self.status = status
        self.headers = headers
        self._pieces = pieces
        self._close = close

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the pieces of the body, to one reader."""
        return self._pieces

    async def close(self) -> None:
        """Stop the stream."""
        if self._close is not None:
            await self._close()


async def whole(body: bytes) -> AsyncGenerator[bytes, None]:
    """Yield a body that is complete, unless it is empty."""
    if body:
        yield body


class Handler(Protocol):
    """A server without its network part: a function from request to answer."""

    async def handle(self, request: Request) -> Response | StreamingResponse:
        """Answer one request."""


class InMemoryTransport:
    """Calls `handler` for each request, with the bearer token of one user."""

    def __init__(self, handler: Handler, token: str = "", user_agent: str = "") -> None:
        self._handler = handler
        self._headers = {"user-agent": user_agent} if user_agent else {}
        if token:
            self._headers["authorization"] = f"Bearer {token}"

    @property
    def host(self) -> str:
        """The name that metrics and messages show; it is not a real host."""
        return "in-memory"

    def _authenticated(self, request: Request) -> Request:
        if not self._headers:
            return request
        return replace(request, headers={**request.headers, **self._headers})

    async def request(self, request: Request) -> Response:
        """Call the handler; read a stream to its end."""
        try:
            async with asyncio.timeout(request.timeout):
                if request.before_write is not None:
                    request.before_write()
                answer = await self._handler.handle(self._authenticated(request))
                if isinstance(answer, Response):
                    return answer
                body = b"".join([chunk async for chunk in answer.chunks()])
        except TimeoutError:
            raise _timed_out(request) from None
        return Response(answer.status, answer.headers, body)

    async def stream(self, request: Request) -> Stream:
        """Call the handler; return its answer as a stream."""
        try:
            async with asyncio.timeout(request.timeout):
                answer = await self._handler.handle(self._authenticated(request))
        except TimeoutError:
            raise _timed_out(request) from None
        pieces = (
            whole(answer.body)
            if isinstance(answer, Response)
            else _timed(answer, request)
        )
        close = None if isinstance(answer, Response) else answer.close
        return StreamingResponse(pieces, answer.headers, answer.status, close)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


def _timed_out(request: Request) -> RequestTimeout:
    return RequestTimeout(
        f"{request.method} {request.path}: no answer within {request.timeout:g} s"
    )


async def _timed(
    answer: StreamingResponse, request: Request
) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of an answer; raises RequestTimeout if one takes too long."""
    async with aclosing(answer.chunks()) as chunks:
        while True:
            try:
                async with asyncio.timeout(request.timeout):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise _timed_out(request) from None
            yield chunk
