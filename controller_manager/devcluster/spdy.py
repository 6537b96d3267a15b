"""SPDY/3.1 and websockets of ``kubectl exec`` and ``port-forward``."""

import asyncio
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from enum import IntEnum
from typing import Final

from aiohttp import WSMsgType, web

from controller_manager.devcluster.apiserver.responses import SPDY, Connection, Upgrade

# SPDY/3.1, as far as clients of Kubernetes speak it (moby/spdystream).

_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding "
    "accept-language accept-ranges age allow authorization cache-control connection "
    "content-base content-encoding content-language content-length content-location "
    "content-md5 content-range content-type date etag expect expires from host "
    "if-match if-modified-since if-none-match if-range if-unmodified-since "
    "last-modified location max-forwards pragma proxy-authenticate "
    "proxy-authorization range referer retry-after server te trailer "
    "transfer-encoding upgrade user-agent vary via warning www-authenticate method "
    "get status"
)
_REST: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417"
    "502504505203 Non-Authoritative Information204 No Content301 Moved Permanently400 "
    "Bad Request401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 "
    "Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov"
    " Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,"
    "image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8"
    "charset=iso-8859-1,utf-,*,enq=0."
)


def _prefixed(text: str) -> bytes:
    return struct.pack(">I", len(text)) + text.encode()


_LATER: Final = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie")
DICTIONARY: Final = (
    b"".join(map(_prefixed, (*_WORDS.split(), *_LATER, "keep-alive", "origin")))
    + _REST.encode()
)
"""The text with which both sides begin to compress headers (SPDY/3, 2.6.10.1)."""

_CONTROL: Final = 0x8003
_FIN: Final = 1
_LARGEST: Final = 1 << 20
"""The most bytes of a frame, and of the headers of a stream."""

_CHUNK: Final = 32 * 1024
_WAITING: Final = 64
"""The frames of a stream that may wait for its reader."""


class _Frame(IntEnum):
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    PING = 6
    GOAWAY = 7


class SPDYError(Exception):
    """A client does not speak SPDY/3.1."""


class Stream:
    """One of the streams of a session, which the client has opened."""

    def __init__(
        self, session: "Session", number: int, headers: Mapping[str, str]
    ) -> None:
        """Take the session, the number, and the headers by lower-case name."""
        self.headers = headers
        self.number = number
        self.was_reset = asyncio.Event()
        self._session = session
        self._received: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self._is_at_end = False
        self._is_closed = False

    async def read(self) -> bytes:
        """Return the next bytes from the client, empty at the end."""
        if self._is_at_end:
            return b""
        data = await self._received.get()
        self._is_at_end = not data
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes to the client, unless the stream is closed."""
        for start in range(0, len(data), _CHUNK):
            if not self._is_closed:
                await self._session.send_data(self, data[start : start + _CHUNK])

    async def close(self) -> None:
        """Tell the client that no more bytes follow."""
        if not self._is_closed:
            self._is_closed = True
            await self._session.send_data(self, b"", _FIN)

    async def received(self, data: bytes, *, is_last: bool) -> None:
        """Take bytes of the client (called by the session)."""
        if data:
            await self._received.put(data)
        if is_last:
            await self._received.put(b"")

    def reset(self) -> None:
        """Note that the client gives the stream up (called by the session)."""
        self._is_closed = True
        self.was_reset.set()


class Session:
    """The server's side of a connection with streams."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._streams: dict[int, Stream] = {}
        self._unread = b""
        self._sending = asyncio.Lock()

    async def run(self, opened: Callable[[Stream], None]) -> None:
        """Read frames until the client ends the connection; report new streams.

        Raises SPDYError.
        """
        while data := await self._connection.receive():
            self._unread += data
            for first, flags, payload in self._frames():
                if first >> 16 == _CONTROL:
                    kind = first & 0xFFFF
                    if kind == _Frame.GOAWAY:
                        return
                    await self._control(kind, flags, payload, opened)
                elif stream := self._streams.get(first & 0x7FFFFFFF):
                    await stream.received(payload, is_last=bool(flags & _FIN))

    def _frames(self) -> Iterator[tuple[int, int, bytes]]:
        while len(self._unread) >= 8:
            first, second = struct.unpack(">II", self._unread[:8])
            length = second & 0xFFFFFF
            if length > _LARGEST:
                raise SPDYError(f"a frame has {length} bytes, more than {_LARGEST}")
            if len(self._unread) < 8 + length:
                return
            payload = self._unread[8 : 8 + length]
            self._unread = self._unread[8 + length :]
            yield first, second >> 24, payload

    async def _control(
        self, kind: int, flags: int, payload: bytes, opened: Callable[[Stream], None]
    ) -> None:
        match kind:
            case _Frame.SYN_STREAM:
                number = struct.unpack(">I", payload[:4])[0] & 0x7FFFFFFF
                headers = self._headers(payload[10:])
                stream = self._streams[number] = Stream(self, number, headers)
                await self._send(
                    _Frame.SYN_REPLY, struct.pack(">I", number), headers={}
                )
                if flags & _FIN:
                    await stream.received(b"", is_last=True)
                opened(stream)
            case _Frame.RST_STREAM:
                number = struct.unpack(">I", payload[:4])[0] & 0x7FFFFFFF
                if dropped := self._streams.pop(number, None):
                    dropped.reset()
            case _Frame.PING:  # which clients send to keep a connection
                await self._send(_Frame.PING, payload)

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            text = self._inflate.decompress(block, _LARGEST)
            (count,), place = struct.unpack_from(">I", text), 4
            found = []
            for _ in range(2 * count):
                (length,) = struct.unpack_from(">I", text, place)
                found.append(text[place + 4 : place + 4 + length].decode())
                place += 4 + length
        except (zlib.error, struct.error, UnicodeDecodeError) as error:
            msg = f"the headers of a stream cannot be read: {error}"
            raise SPDYError(msg) from None
        return dict(zip(found[::2], found[1::2], strict=True))

    async def _send(
        self, kind: int, payload: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a control frame; headers are compressed in the order of sending."""
        async with self._sending:
            if headers is not None:
                block = struct.pack(">I", len(headers)) + b"".join(
                    _prefixed(text) for pair in headers.items() for text in pair
                )
                payload += self._deflate.compress(block)
                payload += self._deflate.flush(zlib.Z_SYNC_FLUSH)
            head = struct.pack(">HHI", _CONTROL, kind, len(payload))
            await self._connection.send(head + payload)

    async def send_data(self, stream: Stream, data: bytes, flags: int = 0) -> None:
        """Send bytes of a stream (called by the stream)."""
        head = struct.pack(">II", stream.number, flags << 24 | len(data))
        async with self._sending:
            await self._connection.send(head + data)

    async def forget(self, stream: Stream) -> None:
        """Drop a stream that both sides have closed."""
        if self._streams.pop(stream.number, None):
            await stream.close()


# Takes connections over from aiohttp's server, for SPDY and for websockets.

_LARGEST_MESSAGE: Final = 16 << 20
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
        protocols=(upgrade.subprotocol,), max_msg_size=_LARGEST_MESSAGE, compress=False
    )
    response.headers.update(headers)
    await response.prepare(request)
    await upgrade.serve(_WebSocket(response))
    await response.close()
    return response


class _WebSocket:
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
    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._received = bytearray()
        self._changed = asyncio.Event()
        self._is_over = False
        self._writable = asyncio.Event()
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > _MOST_WAITING:
            self._transport.pause_reading()
        self._changed.set()

    def eof_received(self) -> None:
        """End reading; over TLS, the connection ends with it."""
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._end()
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
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
            raise ConnectionResetError("the client has closed the connection")
        self._transport.write(data)
