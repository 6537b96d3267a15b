"""The listener: accepts connections, up to the limit of the process.

It accepts connections itself instead of the event loop, because it must count a
connection before its TLS handshake: connections that say nothing would take the files
that the lease needs.
"""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final

from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.serving import ServingCollectors

from .connection import Connection, ConnectionLimits

_BACKLOG: Final = 128
_ALL_IPV4: Final = "0.0.0.0"  # noqa: S104 - upstream's default
_NO_IPV6: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Errors of binding to ``::`` on a machine whose IPv6 is switched off."""

_PAUSE_SECONDS: Final = 1.0
"""Seconds until the next attempt after the process had no free file descriptor."""


def bind(host: str, port: int, *, share_port: bool = False) -> socket.socket:
    """Return a socket that listens on an IP address; raises OSError.

    ``0.0.0.0`` and ``::`` stand for all interfaces of both families, as in Go. On a
    machine without IPv6, ``0.0.0.0`` stands for those of IPv4.
    """
    if host == _ALL_IPV4 and socket.has_dualstack_ipv6():
        try:
            return _listen("::", port, share_port=share_port)
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
    return _listen(host, port, share_port=share_port)


def _listen(host: str, port: int, *, share_port: bool) -> socket.socket:
    return socket.create_server(
        (host, port),
        family=socket.AF_INET6 if ":" in host else socket.AF_INET,
        backlog=_BACKLOG,
        reuse_port=share_port,
        dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
    )


class Listener:
    """Accepts connections on a socket, at most `limits.connections` at a time.

    At the limit, the oldest connection that waits for its peer is closed for a new one,
    so connections that say nothing do not shut out probes. The new connection is closed
    if all others are answering a request.
    """

    def __init__(
        self,
        sock: socket.socket,
        tls: Callable[[], ssl.SSLContext],
        connect: Callable[[], Connection],
        limits: ConnectionLimits,
        metrics: ServingCollectors,
        logger: Logger,
    ) -> None:
        """Take a listening socket, which the listener closes.

        `tls` and `connect` return the settings and the protocol of one connection.
        """
        self.port = int(sock.getsockname()[1])
        self._sock = sock
        self._tls = tls
        self._connect = connect
        self._limits = limits
        self._metrics = metrics
        self._logger = logger
        self._loop = asyncio.get_running_loop()
        self._open: dict[Connection, asyncio.Task[None]] = {}
        sock.settimeout(0)
        self._accepting = self._loop.create_task(self._accept_all(), name="accept")

    @property
    def connections(self) -> int:
        """The number of open connections, including handshakes."""
        return len(self._open)

    async def close(self) -> None:
        """Stop accepting, and end the handshakes in progress."""
        tasks = (self._accepting, *self._open.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._sock.close()

    async def _accept_all(self) -> None:
        is_out_of_files = False
        while True:
            try:
                sock = await self._accept()
            except ConnectionError:
                continue  # the peer has disconnected meanwhile
            except OSError as error:
                # The socket stays readable, so without a pause the loop would spin.
                if not is_out_of_files:
                    self._warn(error)
                is_out_of_files = True
                self._evict()
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            is_out_of_files = False
            self._take(sock)
            await asyncio.sleep(0)  # connections that wait must not shut out others

    async def _accept(self) -> socket.socket:
        sock, _ = await self._loop.sock_accept(self._sock)
        return sock

    def _warn(self, error: OSError) -> None:
        why = os.strerror(error.errno) if error.errno else str(error)
        self._logger.warning(
            "Cannot accept connections, trying again each second", err=why
        )

    def _take(self, sock: socket.socket) -> None:
        if len(self._open) >= self._limits.connections and not self._evict():
            self._metrics.refused()
            sock.close()
            return
        connection = self._connect()
        serving = self._serve(sock, connection)
        task = self._loop.create_task(serving, name="connection")
        self._open[connection] = task
        task.add_done_callback(lambda _: self._open.pop(connection, None))

    def _evict(self) -> bool:
        """Close the oldest connection that waits; tell whether there was one."""
        oldest = next((each for each in self._open if not each.is_admitted), None)
        if oldest is None:
            return False
        self._metrics.evicted()
        task = self._open.pop(oldest)
        if oldest.transport is None:
            task.cancel()
        else:
            oldest.transport.abort()
        return True

    async def _serve(self, sock: socket.socket, connection: Connection) -> None:
        """Serve a connection until it is closed."""
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                sock,
                ssl=self._tls(),
                ssl_handshake_timeout=self._limits.handshake,
                ssl_shutdown_timeout=self._limits.closing,
            )
        except OSError as error:
            self._logger.v(4).info("TLS handshake failed", err=str(error))
        except Exception as error:
            self._logger.error("TLS handshake failed", exc_info=error)
        else:
            await connection.closed
