"""The way through a proxy: CONNECT for a server with TLS, whole URLs for one without.

Upstream: net/http, transport.go, dialConn.
"""

import asyncio
import ssl
from base64 import b64encode
from typing import Final, cast
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from controller_manager.urls import without_user

from .answers import LONGEST_HEAD, Head, MalformedAnswer, parse_head

PORTS: Final = {"http": 80, "https": 443}
"""The ports of URLs that name none."""

_HEAD_END: Final = b"\r\n\r\n"
_SUCCESS: Final = 2
"""The first digit of the status of a success."""

_LONGEST_REASON: Final = 80
"""The most characters of a reason that the proxy gives."""


class ProxyRefused(Exception):
    """A proxy gave no connection; the text has its URL and its answer."""


class Proxy(Struct, frozen=True):
    """A proxy; `url` has no user, because errors show it."""

    url: str
    host: str
    port: int
    has_tls: bool
    user: tuple[tuple[str, str], ...] = ()
    """The headers that name the user, for the proxy alone."""


def proxy_at(url: str) -> Proxy:
    """Return the proxy with a URL, whose user becomes a header.

    Upstream: net/http, transport.go, proxyAuth.
    """
    parts = urlsplit(url)
    user: tuple[tuple[str, str], ...] = ()
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        encoded = b64encode(pair.encode()).decode("ascii")
        user = (("Proxy-Authorization", f"Basic {encoded}"),)
    port = parts.port or PORTS[parts.scheme]
    host = parts.hostname or ""
    return Proxy(without_user(url), host, port, parts.scheme == "https", user)


class Tunnel(asyncio.Protocol):
    """The connection to a proxy until it leads to a server."""

    def __init__(self, proxy: Proxy) -> None:
        """Call this in a running event loop."""
        self._proxy = proxy
        self._answered: asyncio.Future[Head] = (
            asyncio.get_running_loop().create_future()
        )
        self._transport: asyncio.Transport | None = None
        self._received = b""

    async def dig(self, target: str) -> None:
        """Ask the proxy for a connection to `target`, a host with its port.

        Raises ProxyRefused for any answer but a success, or if there is none.
        """
        assert self._transport is not None  # noqa: S101 - it is connected
        lines = (("Host", target), *self._proxy.user)
        head = "".join(f"{name}: {value}\r\n" for name, value in lines)
        self._transport.write(f"CONNECT {target} HTTP/1.1\r\n{head}\r\n".encode())
        answer = await self._answered
        if answer.status // 100 != _SUCCESS:
            reason = answer.reason if answer.reason.isprintable() else ""
            words = f"{answer.status} {reason[:_LONGEST_REASON]}"
            msg = f"{self._proxy.url} answered {words}"
            raise ProxyRefused(msg)

    async def encrypt(
        self, inner: asyncio.Protocol, tls: ssl.SSLContext, server_name: str
    ) -> None:
        """Give the tunnel to `inner`, with TLS to the server; raises SSLError."""
        outer = self._transport
        if outer is None or outer.is_closing():
            msg = "the proxy closed the connection"
            raise ConnectionResetError(msg)
        loop = asyncio.get_running_loop()
        made = await loop.start_tls(outer, inner, tls, server_hostname=server_name)
        if made is None:  # closed during the handshake
            msg = "the connection was closed"
            raise ConnectionResetError(msg)
        inner.connection_made(made)

    def abort(self) -> None:
        """Close the connection, whoever has it by now."""
        if self._transport is not None:
            self._transport.abort()
        self._answered.cancel()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none

    def data_received(self, data: bytes) -> None:
        """Take bytes of the proxy's answer."""
        try:
            while data:
                data = self._read(data)
        except MalformedAnswer as error:
            self._fail(str(error))

    def _read(self, data: bytes) -> bytes:
        """Return the bytes after a head, if it is whole."""
        if self._answered.done():  # a server with TLS speaks after its client
            msg = "bytes after its answer"
            raise MalformedAnswer(msg)
        self._received += data
        head, end, rest = self._received.partition(_HEAD_END)
        if len(head) > LONGEST_HEAD:
            msg = f"a head of more than {LONGEST_HEAD} bytes"
            raise MalformedAnswer(msg)
        if not end:
            return b""
        self._received = b""
        answer = parse_head(head)
        if not answer.is_interim:
            self._answered.set_result(answer)
        return rest

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell who waits for the answer."""
        self._fail(str(exc or "it closed the connection"))

    def _fail(self, why: str) -> None:
        if not self._answered.done():
            msg = f"{self._proxy.url} gave no connection: {why}"
            self._answered.set_exception(ProxyRefused(msg))
        if self._transport is not None:
            self._transport.abort()
