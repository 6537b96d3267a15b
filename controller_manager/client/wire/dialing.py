"""Opens connections to a server: names, sockets, TLS."""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import aiohappyeyeballs

from controller_manager.client.credentials import Identity
from controller_manager.client.errors import NotSent, UntrustedServer
from controller_manager.client.files import FileReserve
from controller_manager.client.wire.connection import Connection
from controller_manager.client.wire.pool import Pool

CONNECT_TIMEOUT: Final = 10.0
"""Seconds that the look-up, the connection and the handshake may take together."""

_NEXT_ADDRESS: Final = 0.25
"""Seconds after which the next address of a name is tried beside the first one."""

_PORTS: Final = {"http": 80, "https": 443}

ObserveLookUp = Callable[[str, float], None]
"""Called with the name and the seconds of a look-up."""


def ignore_look_up(host: str, seconds: float) -> None:
    """Do nothing after a look-up."""


class Dialer:
    """Opens connections to one server.

    The name is looked up for each connection, as client-go does: so a server that has
    moved is found. A failed look-up is measured, too; an address needs none.
    """

    def __init__(
        self,
        server: str,
        tls_server_name: str | None,
        reserve: FileReserve,
        observe_look_up: ObserveLookUp,
    ) -> None:
        """Take the URL of the server, and the name in its certificate if it differs."""
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or _PORTS[parts.scheme]
        self._is_https = parts.scheme == "https"
        self._tls_name = tls_server_name or self._host
        self._is_numeric = _is_address(self._host)
        self._numeric: tuple[aiohappyeyeballs.AddrInfoType, ...] = ()
        self._reserve = reserve
        self._observe = observe_look_up

    async def open(self, pool: Pool, identity: Identity) -> Connection:
        """Return a new connection in use; raises OSError, TimeoutError, SSLError."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_TIMEOUT):
            addresses = await self._addresses(loop)
            connected = await aiohappyeyeballs.start_connection(
                addresses,
                happy_eyeballs_delay=_NEXT_ADDRESS,
                loop=loop,
                socket_factory=self._make_socket,
            )
            connection = Connection(pool, identity.tls)
            try:
                await loop.create_connection(
                    lambda: connection,
                    sock=connected,
                    ssl=identity.tls if self._is_https else None,
                    server_hostname=self._tls_name if self._is_https else None,
                )
            except BaseException:
                # A handshake that has just ended would wait for the server's farewell.
                connection.abort()
                connected.close()
                raise
        if connection.is_closed:
            msg = "the server closed the connection at once"
            raise ConnectionResetError(msg)
        pool.add(connection)
        return connection

    async def _addresses(
        self, loop: asyncio.AbstractEventLoop
    ) -> list[aiohappyeyeballs.AddrInfoType]:
        if self._is_numeric:
            if not self._numeric or "%" in self._host:  # the interface may have changed
                self._numeric = self._parsed()
            return [*self._numeric]
        started = loop.time()
        try:
            found = await loop.getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM
            )
            return [*found]
        finally:
            self._observe(self._host, loop.time() - started)

    def _parsed(self) -> tuple[aiohappyeyeballs.AddrInfoType, ...]:
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        found = socket.getaddrinfo(
            self._host, self._port, type=socket.SOCK_STREAM, flags=flags
        )
        return tuple(found)

    def _make_socket(self, address: aiohappyeyeballs.AddrInfoType) -> socket.socket:
        return self._reserve.open(lambda: keepalive_socket(address))


def _is_address(host: str) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.inet_pton(family, host.partition("%")[0])
    except OSError:
        return False
    return True


def keepalive_socket(address: aiohappyeyeballs.AddrInfoType) -> socket.socket:
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


def not_connected(what: str, error: BaseException) -> NotSent:
    """Return the error for a connection that failed: the request was never sent."""
    if isinstance(error, TimeoutError) and not getattr(error, "errno", None):
        return NotSent(f"{what}: cannot connect within {CONNECT_TIMEOUT:g} s")
    if isinstance(error, ssl.SSLCertVerificationError | ssl.CertificateError):
        why = getattr(error, "verify_message", None) or error
        return UntrustedServer(
            f"{what}: the certificate is not trusted: {why}; check the kubeconfig's "
            "certificate-authority and server"
        )
    if isinstance(error, ssl.SSLError):
        return NotSent(f"{what}: no TLS connection: {error.reason or error}")
    # The text of the error depends on the event loop, so the text of its number is
    # used. A failed DNS look-up has a negative number, which only its text explains.
    number = getattr(error, "errno", None) or 0
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    reason = os.strerror(number) if number > 0 else text
    return NotSent(f"{what}: cannot connect: {reason}")
