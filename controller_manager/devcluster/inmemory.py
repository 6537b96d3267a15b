"""A transport that calls a server in the same process."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol

from controller_manager.client.rest.errors import RequestTimeout
from controller_manager.client.rest.transport import Request, Response, Stream


class StreamingResponse(Protocol):
    """A server's answer to a watch: status, headers and an iterator of chunks."""

    @property
    def status(self) -> int:
        """The HTTP status code."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case name."""

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield pieces of the body."""

    async def close(self) -> None:
        """Stop the stream."""


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
        if isinstance(answer, Response):
            return _CompleteStream(answer)
        return _TimedStream(answer, request)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


def _timed_out(request: Request) -> RequestTimeout:
    return RequestTimeout(
        f"{request.method} {request.path}: no answer within {request.timeout:g} s"
    )


class _CompleteStream:
    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.headers = response.headers
        self._body = response.body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield self._body

    async def close(self) -> None:
        pass


class _TimedStream:
    def __init__(self, answer: StreamingResponse, request: Request) -> None:
        self._answer = answer
        self._request = request

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._answer.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._answer.chunks()) as iterator:
            while True:
                try:
                    async with asyncio.timeout(self._request.timeout):
                        chunk = await anext(iterator)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise _timed_out(self._request) from None
                yield chunk

    async def close(self) -> None:
        await self._answer.close()
