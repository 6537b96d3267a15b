"""The connections of the HTTPS server: their number, and limits for a slow peer.

The listener accepts connections itself instead of the event loop, because it must count
a connection before its TLS handshake: connections that say nothing would take the files
that the lease needs.

aiohttp limits the size of a header and a body, and the idle time between two requests.
A peer that sends one byte every few seconds, or does not read the answer, could still
keep its connection, and a file descriptor of the process, for ever.
"""

import asyncio
import errno
import os
import resource
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from aiohttp import web

from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.manager import ServingCollectors

from .answers import refusal

_MAX_CONNECTIONS: Final = 250
_SHARE_OF_FILES: Final = 4


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one server; times are in seconds.

    Upstream has 32 s for the handshake and again for the header, 90 s for an
    idle connection, 256 KiB for a body that no handler reads, and no limit for the
    number of connections.
    """

    handshake: float = 10.0
    """For the TLS handshake. Go's clients also stop after ten seconds."""

    header: float = 32.0
    """From the first byte of a request (or the handshake) to the end of its header."""

    body: float = 10.0
    """For a body that a handler reads; after the answer, for the rest of any body."""

    body_bytes: int = 256 * 1024
    """The maximum size of a body that a handler reads."""

    idle: float = 90.0
    """From an answer to the first byte of the next request."""

    stalled: float = 30.0
    """For a client to read a part of an answer that is being written."""

    closing: float = 2.0
    """For the peer to confirm the end of the TLS connection."""

    connections: int = _MAX_CONNECTIONS
    """The maximum number of connections, including handshakes."""

    @classmethod
    def for_this_process(cls) -> Self:
        """Return limits that leave three quarters of the file descriptors free.

        The soft limit of open files at the time of the call is used.
        """
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files == resource.RLIM_INFINITY:
            return cls()
        share = max(1, files // _SHARE_OF_FILES)
        return cls(connections=min(share, _MAX_CONNECTIONS))


class QuietLogger:
    """Logs messages of the HTTP library about bad requests only with ``-v=4``."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def debug(self, message: str, *args: object, **_: object) -> None:
        """Log at level 4."""
        self._logger.v(4).info("HTTP server", what=message % args if args else message)

    info = warning = error = exception = debug


class Connection(web.RequestHandler):
    """Serves HTTP to one peer, and closes the connection if the peer is slow.

    The handler of a request calls `begin` first. From then on until the answer is
    written no timeout applies, unless the peer does not read the answer. Otherwise one
    timer runs from the handshake, or from the first byte after an answer, to the end of
    a header. It is not restarted when another byte of the header arrives. aiohttp ends
    the connection that is idle after an answer.

    The handler calls `admit` once the sender of the request is authorised. Until then
    the connection may be closed for a new one, because any client can send requests
    that wait for a review by the API server.
    """

    __slots__ = ("_handling", "_limits", "_timer", "closed", "is_admitted")

    def __init__(
        self, server: web.Server, limits: ConnectionLimits, logger: Logger
    ) -> None:
        options: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            "keepalive_timeout": limits.idle,
            "lingering_time": limits.body,
            "logger": QuietLogger(logger),
        }
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self._handling = False
        self.closed: asyncio.Future[None] = self._loop.create_future()
        """Done once the connection is closed."""
        self.is_admitted = False
        """True while a request is answered whose sender is authorised."""

    def begin(self) -> None:
        """Record that the handling of a request begins."""
        self._handling = True
        self._stop_waiting()

    def admit(self) -> None:
        """Record that the sender of the request is authorised."""
        self.is_admitted = True

    # Callbacks of asyncio and aiohttp.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait(self._limits.header)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop the timer."""
        self._stop_waiting()
        if not self.closed.done():
            self.closed.set_result(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request."""
        if not self._handling and self._timer is None:
            self._wait(self._limits.header)
        super().data_received(data)

    def pause_writing(self) -> None:
        """Wait until the peer reads a part of the answer."""
        super().pause_writing()
        self._wait(self._limits.stalled)

    def resume_writing(self) -> None:
        """Record that the peer has read a part of the answer."""
        super().resume_writing()
        self._stop_waiting()

    async def finish_response(
        self,
        request: web.BaseRequest,
        resp: web.StreamResponse,
        start_time: float | None,
    ) -> tuple[web.StreamResponse, bool]:
        """Write an answer; after it, bytes are those of the next request."""
        if not self._handling:
            self.begin()  # the library refuses some requests itself
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._handling = self.is_admitted = False

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to bytes that are no request; the text is not aiohttp's."""
        super().handle_error(request, status, exc, message)  # it logs the reason
        return refusal(status)

    # Waiting.

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        if self.transport is not None:
            self._timer = self._loop.call_later(seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


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
