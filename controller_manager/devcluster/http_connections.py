"""Connections with plain requests, answered without the machinery of aiohttp.

`PlainConnection` reads the requests that `http_requests` knows. The first bytes that
are no plain request, it gives to another protocol together with the connection. So that
protocol has all that is rare in HTTP, and each limit for a slow or hostile peer.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final, cast

from controller_manager.client.transport import Request, Response
from controller_manager.devcluster.certificates import user_of
from controller_manager.devcluster.http_answers import head_of, whole_answer
from controller_manager.devcluster.http_requests import RequestReader
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.devcluster.server.security.authentication import User

Answer = Response | StreamingResponse
Respond = Callable[[Request, User | None], Awaitable[tuple[Answer, dict[str, str]]]]
"""Answers the request of a user; also returns the headers of every answer."""

MOST_BYTES: Final = 256 * 1024
"""The bytes from which on a client must wait until its requests are answered."""

_DEFECT: Final = Response(500, {"connection": "close"})
"""The answer if there is no other, because of a defect."""


class ConnectionCutError(Exception):
    """The client is to get no answer, and its connection is to be cut."""


class PlainConnections:
    """The open connections of a server that have had only plain requests."""

    def __init__(self, respond: Respond) -> None:
        """Take the function that answers requests."""
        self.respond = respond
        self.open: set[PlainConnection] = set()
        self.is_closing = False
        """True once no more requests are to be answered."""

    def transports(self) -> list[asyncio.Transport]:
        """Return the transports of all connections."""
        return [each.transport for each in self.open if each.transport is not None]

    async def close(self, patience: float) -> None:
        """Close all connections; requests that are being answered have some seconds."""
        self.is_closing = True
        tasks = [task for each in list(self.open) if (task := each.finish())]
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class PlainConnection(asyncio.Protocol):
    """Answers one request at a time, in their order."""

    __slots__ = (
        "_data",
        "_is_paused",
        "_reader",
        "_server",
        "_stalled",
        "_task",
        "_user",
        "_usual",
        "_writable",
        "transport",
    )

    def __init__(
        self, server: PlainConnections, usual: Callable[[], asyncio.Protocol]
    ) -> None:
        """Take the server, to which it belongs while it is open.

        `usual` makes the protocol for all other requests.
        """
        self._server = server
        self._usual = usual
        self._reader = RequestReader()
        self._data = b""
        self._user: User | None = None
        self.transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_paused = False
        self._stalled = False
        self._writable: asyncio.Future[None] | None = None

    def finish(self) -> "asyncio.Task[None] | None":
        """Return the task that answers a request; without one, close the connection."""
        if self._task is None and self.transport is not None:
            self.transport.close()
        return self._task

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, whose client certificate TLS has verified."""
        self.transport = cast(asyncio.Transport, transport)
        if self._server.is_closing:
            self.transport.abort()
            return
        self._server.open.add(self)
        if link := transport.get_extra_info("socket"):
            link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._user = certificate_user(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop answering."""
        del exc
        self._server.open.discard(self)
        self.transport = None
        self._data = b""
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request, which usually is the whole request."""
        self._data = self._data + data if self._data else data
        if self._task is None and not self._stalled:
            self._next()
        elif len(self._data) > MOST_BYTES and self.transport is not None:
            self._is_paused = True
            self.transport.pause_reading()

    def pause_writing(self) -> None:
        """Wait until the client reads a part of the answer."""
        self._stalled = True

    def resume_writing(self) -> None:
        """Go on after the client has read a part of the answer."""
        self._stalled = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if self._task is None:
            self._go_on()

    # Requests

    def _go_on(self) -> None:
        """Take the next request after an answer, unless the client reads too slowly."""
        if self._stalled or self.transport is None:
            return
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()
        if self._data:
            self._next()

    def _next(self) -> None:
        """Answer the next request, or leave the connection to the other protocol."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        found = self._reader.read(self._data)
        if found is None:
            self._hand_over(transport)
            return
        request, self._data = found
        self._task = asyncio.create_task(self._answer(request, transport))

    def _hand_over(self, transport: asyncio.Transport) -> None:
        data, self._data, self.transport = self._data, b"", None
        self._server.open.discard(self)
        other = self._usual()
        transport.set_protocol(other)
        other.connection_made(transport)
        other.data_received(data)

    async def _answer(self, request: Request, transport: asyncio.Transport) -> None:
        """Answer a request, then go on with the next one."""
        try:
            await self._send(request, transport)
        except ConnectionCutError:
            transport.abort()
        except Exception as error:  # noqa: BLE001 - a defect ends one connection
            _report(error)
            transport.abort()
        finally:
            self._task = None
        if self._server.is_closing:
            transport.close()
        else:
            self._go_on()

    async def _send(self, request: Request, transport: asyncio.Transport) -> None:
        try:
            answer, common = await self._server.respond(request, self._user)
            if isinstance(answer, Response):
                transport.write(whole_answer(answer, common))
                return
        except ConnectionCutError:
            raise
        except Exception as error:  # noqa: BLE001 - a defect ends one connection
            _report(error)
            transport.write(whole_answer(_DEFECT, {}))
            transport.close()
            return
        try:
            await self._stream(answer, common, transport)
        finally:
            await answer.close()

    async def _stream(
        self,
        answer: StreamingResponse,
        common: dict[str, str],
        transport: asyncio.Transport,
    ) -> None:
        """Send a stream chunk by chunk, as fast as the client reads."""
        headers = {**common, **answer.headers}
        headers["transfer-encoding"] = "chunked"
        transport.write(head_of(answer.status, headers))
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                if chunk:
                    transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                if self._stalled:
                    await self._drained()
        transport.write(b"0\r\n\r\n")

    async def _drained(self) -> None:
        """Wait until the client has read a part of the answer."""
        self._writable = asyncio.get_running_loop().create_future()
        try:
            await self._writable
        finally:
            self._writable = None


def certificate_user(transport: asyncio.BaseTransport) -> User | None:
    """Return the user of the client certificate, which TLS has verified."""
    connection = transport.get_extra_info("ssl_object")
    encoded = connection.getpeercert(binary_form=True) if connection else None
    return user_of(encoded) if encoded else None


def _report(error: Exception) -> None:
    """Report a defect: the server answers all errors of requests."""
    context = {"message": "A request could not be answered", "exception": error}
    asyncio.get_running_loop().call_exception_handler(context)
