"""Takes connections over from aiohttp's server, for SPDY and for websockets."""

import asyncio
from contextlib import suppress
from typing import Final

from aiohttp import WSMsgType, web

from controller_manager.devcluster.apiserver.responses import SPDY, Upgrade

_LARGEST: Final = 16 << 20
"""The most bytes of a message of a websocket."""

_MOST_WAITING: Final = 1 << 20
"""The bytes from which on a connection is not read until its reader catches up."""


async def upgraded(
    request: web.BaseRequest, upgrade: Upgrade, headers: dict[str, str]
) -> web.StreamResponse:
    """Serve an upgrade to its end; return the answer, which has been sent."""
    if upgrade.protocol == SPDY:
        return await _taken_over(request, upgrade)
    response = web.WebSocketResponse(
        protocols=(upgrade.subprotocol,), max_msg_size=_LARGEST, compress=False
    )
    response.headers.update(headers)
    await response.prepare(request)
    await upgrade.serve(_WebSocket(response))
    await response.close()
    return response


class _WebSocket:
    """The binary messages of a websocket."""

    def __init__(self, response: web.WebSocketResponse) -> None:
        self._response = response

    async def receive(self) -> bytes:
        """Return the next message that is not empty; empty at the end."""
        while True:
            message = await self._response.receive()
            if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
                return b""
            data: str | bytes = message.data
            if data:
                return data.encode() if isinstance(data, str) else data

    async def send(self, data: bytes) -> None:
        """Send one message; raises ConnectionError."""
        await self._response.send_bytes(data)


async def _taken_over(request: web.BaseRequest, upgrade: Upgrade) -> web.StreamResponse:
    """Answer 101 and serve all further bytes of the connection.

    aiohttp upgrades to websockets alone, so another protocol of asyncio gets the
    transport.
    """
    transport = request.transport
    assert transport is not None  # noqa: S101 - it is connected
    before = transport.get_protocol()
    taken = _Taken(transport)
    transport.set_protocol(taken)
    lines = (
        "HTTP/1.1 101 Switching Protocols",
        "Connection: Upgrade",
        f"Upgrade: {SPDY}",
        f"X-Stream-Protocol-Version: {upgrade.subprotocol}",
    )
    transport.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
    try:
        await upgrade.serve(taken)
    finally:
        transport.set_protocol(before)
        transport.close()
    return web.StreamResponse(status=101)


class _Taken(asyncio.Protocol):
    """The bytes of a connection that was taken over."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._received = bytearray()
        self._changed = asyncio.Event()
        self._is_over = False
        self._writable = asyncio.Event()
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Keep bytes until they are read."""
        self._received += data
        if len(self._received) > _MOST_WAITING:
            self._transport.pause_reading()
        self._changed.set()

    def eof_received(self) -> None:
        """End reading; over TLS, the connection ends with it."""
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """End reading and writing."""
        del exc
        self._end()
        self._writable.set()

    def pause_writing(self) -> None:
        """Let writers wait."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let writers go on."""
        self._writable.set()

    def _end(self) -> None:
        self._is_over = True
        self._changed.set()

    async def receive(self) -> bytes:
        """Return all bytes that were received; empty at the end."""
        while not self._received and not self._is_over:
            self._changed.clear()
            await self._changed.wait()
        data = bytes(self._received)
        self._received.clear()
        with suppress(RuntimeError):  # the transport was not paused, or is closed
            self._transport.resume_reading()
        return data

    async def send(self, data: bytes) -> None:
        """Send bytes; raises ConnectionError."""
        await self._writable.wait()
        if self._transport.is_closing():
            msg = "the client has closed the connection"
            raise ConnectionResetError(msg)
        self._transport.write(data)
