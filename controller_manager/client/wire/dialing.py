"""Opens connections to a server: names, sockets, proxies, TLS.

Through a proxy: CONNECT for a server with TLS, whole URLs for one without. Upstream:
net/http, transport.go, dialConn.
"""

import asyncio
import os
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Final, cast
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from controller_manager.client.identity.credentials import Identity
from controller_manager.client.rest.errors import NotSent, UntrustedServer
from controller_manager.urls import without_user

from .answers import LONGEST_HEAD, Head, MalformedAnswer, parse_head
from .connection import Connection
from .file_reserve import FileReserve
from .pool import InProgress, Pool

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


CONNECT_TIMEOUT: Final = 10.0
"""Seconds that the look-up, the connection, its proxy and TLS may take together."""

_NEXT_ADDRESS: Final = 0.25
"""Seconds after which the next address of a name is tried beside the first one."""

_TLS = ssl.SSLContext | bool
"""The settings of an identity; `True` is the usual ones of the system."""

Address = tuple[
    socket.AddressFamily,
    socket.SocketKind,
    int,
    str,
    tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes],
]
"""What a look-up finds: family, type, protocol, name, address."""

ObserveLookUp = Callable[[str, float], None]
"""Called with the name and the seconds of a look-up."""


def ignore_look_up(host: str, seconds: float) -> None:
    """Do nothing after a look-up."""


class ProxyFailed(Exception):
    """The proxy that the text names was not reached in time; the cause tells why."""


class Dialer:
    """Opens connections to one server, through a proxy if there is one.

    The name is looked up for each connection, as client-go does: so a server that has
    moved is found. A failed look-up is measured, too; an address needs none.
    """

    def __init__(
        self,
        server: str,
        tls_server_name: str | None,
        proxy: Proxy | None,
        reserve: FileReserve,
        observe_look_up: ObserveLookUp,
    ) -> None:
        """`tls_server_name` is the name in its certificate, if it differs."""
        parts = urlsplit(server)
        host = parts.hostname or ""
        port = parts.port or PORTS[parts.scheme]
        self._is_https = parts.scheme == "https"
        self._tls_name = tls_server_name or host
        self._target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._proxy = proxy
        self._host, self._port = (proxy.host, proxy.port) if proxy else (host, port)
        self._is_numeric = _is_address(self._host)
        self._numeric: Sequence[Address] = ()
        self._reserve = reserve
        self._observe = observe_look_up
        self.in_progress = InProgress()

    @property
    def forwarder(self) -> Proxy | None:
        """The proxy that reads the requests, because the server has no TLS."""
        return None if self._is_https else self._proxy

    async def open(self, pool: Pool, identity: Identity) -> Connection:
        """Return a new connection in use.

        Raises one of FAILURES, of which `not_connected` makes the error for a caller.
        """
        connection, proxy = Connection(pool, identity.tls), self._proxy
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                if proxy is None:
                    tls = identity.tls if self._is_https else None
                    await self._connect(connection, tls, self._tls_name)
                elif self._is_https:
                    await self._dig(proxy, connection, identity.tls)
                else:
                    await self._reach(proxy, connection, identity.tls)
        except TimeoutError as error:
            if proxy is None:
                raise
            raise ProxyFailed(proxy.url) from error
        if connection.is_closed:
            msg = "the server closed the connection at once"
            raise ConnectionResetError(msg)
        pool.add(connection)
        return connection

    async def _dig(self, proxy: Proxy, connection: Connection, tls: _TLS) -> None:
        """Connect to the server with TLS in a tunnel through the proxy."""
        assert isinstance(tls, ssl.SSLContext)  # noqa: S101 - the server has TLS
        tunnel = Tunnel(proxy)
        try:
            await self._reach(proxy, tunnel, tls)
            await tunnel.dig(self._target)
            await tunnel.encrypt(connection, tls, self._tls_name)
        except BaseException:
            tunnel.abort()
            raise

    async def _reach(
        self, proxy: Proxy, protocol: Connection | Tunnel, tls: _TLS
    ) -> None:
        """Connect to the proxy; raises ProxyFailed."""
        try:
            await self._connect(protocol, tls if proxy.has_tls else None, proxy.host)
        except (OSError, ValueError) as error:
            raise ProxyFailed(proxy.url) from error

    async def _connect(
        self,
        protocol: Connection | Tunnel,
        tls: _TLS | None,
        tls_name: str,
    ) -> None:
        loop = asyncio.get_running_loop()
        connected = await self._first_to_answer(await self._addresses(loop))
        try:
            await loop.create_connection(
                lambda: protocol,
                sock=connected,
                ssl=tls,
                server_hostname=tls_name if tls else None,
            )
        except BaseException:
            # A handshake that has just ended would wait for the server's farewell.
            protocol.abort()
            connected.close()
            raise

    async def _first_to_answer(self, addresses: Sequence[Address]) -> socket.socket:
        """Return a socket that is connected to one of the addresses.

        Each is tried in its turn, once the one before has failed or has not answered
        for a while, and beside it (RFC 8305). Raises the OSError of the first one if
        all fail.
        """
        if len(addresses) == 1:
            return await self._connected_to(addresses[0])
        waiting, errors = [*reversed(addresses)], list[BaseException]()
        tries = set[asyncio.Task[socket.socket]]()
        try:
            while waiting or tries:
                if waiting:
                    trying = self._connected_to(waiting.pop())
                    tries.add(asyncio.create_task(trying))
                done, _ = await asyncio.wait(
                    tries,
                    timeout=_NEXT_ADDRESS if waiting else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for each in done:
                    tries.discard(each)
                    error = each.exception()
                    if error is None:
                        return each.result()
                    errors.append(error)
        finally:
            for each in tries:
                each.cancel()
            for left in await asyncio.gather(*tries, return_exceptions=True):
                if isinstance(left, socket.socket):
                    left.close()
        raise errors[0]

    async def _connected_to(self, address: Address) -> socket.socket:
        made = self._reserve.open(lambda: keepalive_socket(address))
        try:
            await asyncio.get_running_loop().sock_connect(made, address[-1])
        except BaseException:
            made.close()
            raise
        return made

    async def _addresses(self, loop: asyncio.AbstractEventLoop) -> Sequence[Address]:
        if self._is_numeric:
            if not self._numeric or "%" in self._host:  # the interface may have changed
                self._numeric = self._parsed()
            return self._numeric
        started = loop.time()
        try:
            return await loop.getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM
            )
        finally:
            self._observe(self._host, loop.time() - started)

    def _parsed(self) -> Sequence[Address]:
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return socket.getaddrinfo(
            self._host, self._port, type=socket.SOCK_STREAM, flags=flags
        )


def _is_address(host: str) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.inet_pton(family, host.partition("%")[0])
    except OSError:
        return False
    return True


def keepalive_socket(address: Address) -> socket.socket:
    """Return a socket that detects within a minute that its peer is gone."""
    family, kind, protocol, _, _ = address
    sock = socket.socket(family=family, type=kind, proto=protocol)
    sock.setblocking(False)  # noqa: FBT003 - its only parameter
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 30),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 30_000),  # milliseconds without an acknowledgement
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock


FAILURES: Final = (OSError, ValueError, ProxyFailed, ProxyRefused)
"""The errors of a dial: nothing of a request was sent."""


def not_connected(what: str, error: BaseException, setting: str = "server") -> NotSent:
    """Return the error for a connection that failed: the request was never sent.

    `setting` is the part of the kubeconfig that names the peer.
    """
    if isinstance(error, ProxyFailed) and error.__cause__ is not None:
        return not_connected(f"{what}: the proxy {error}", error.__cause__, "proxy-url")
    if isinstance(error, ProxyRefused):
        return NotSent(f"{what}: the proxy {error}")
    if isinstance(error, TimeoutError) and not getattr(error, "errno", None):
        return NotSent(f"{what}: cannot connect within {CONNECT_TIMEOUT:g} s")
    if isinstance(error, ssl.SSLCertVerificationError | ssl.CertificateError):
        why = getattr(error, "verify_message", None) or error
        return UntrustedServer(
            f"{what}: the certificate is not trusted: {why}; check the kubeconfig's "
            f"certificate-authority and {setting}"
        )
    if isinstance(error, ssl.SSLError):
        return NotSent(f"{what}: no TLS connection: {error.reason or error}")
    # The text of the error depends on the event loop, so the text of its number is
    # used. A failed DNS look-up has a negative number, which only its text explains.
    number = getattr(error, "errno", None) or 0
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    reason = os.strerror(number) if number > 0 else text
    return NotSent(f"{what}: cannot connect: {reason}")
