"""The listener: accepts connections, up to the limit of the process.

It accepts connections itself instead of the event loop, because it must count a
connection, and may close it, before its TLS handshake.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Final

from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.serving import ServingCollectors
from controller_manager.serving.connection import Connection
from controller_manager.serving.handshakes import HandshakeLimiter, TooManyHandshakes
from controller_manager.serving.limits import ConnectionLimits
from controller_manager.serving.local_peers import LocalPeers
from controller_manager.serving.tls import TLSProtocol

_BACKLOG: Final = 128
_ALL_IPV4: Final = "0.0.0.0"  # noqa: S104 - upstream's default
_NO_IPV6: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Errors of binding to ``::`` on a machine whose IPv6 is switched off."""

_PAUSE_SECONDS: Final = 1.0
"""Seconds until the next attempt after the process had no free file descriptor."""

_Closed = Callable[[Connection], None]


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

    At the limit, the connection that has waited longest for its peer is closed in
    favour of the new one, so half-open and idle connections do not block new clients.
    The new connection is closed only if all others are answering a request, or if its
    peer would wait too long for its handshake (see `HandshakeLimiter`).
    """

    def __init__(
        self,
        sock: socket.socket,
        tls: Callable[[asyncio.Protocol], TLSProtocol],
        connect: Callable[[_Closed], Connection],
        limits: ConnectionLimits,
        handshakes: HandshakeLimiter,
        local_peers: LocalPeers,
        metrics: ServingCollectors,
        logger: Logger,
    ) -> None:
        """Take a listening socket, which the listener closes.

        `tls` puts TLS before the protocol of one connection. `connect` returns that
        protocol; its argument is called when the connection is closed.
        """
        self.port = int(sock.getsockname()[1])
        self._sock = sock
        self._tls = tls
        self._connect = connect
        self._limits = limits
        self._handshakes = handshakes
        self._local_peers = local_peers
        self._metrics = metrics
        self._logger = logger
        self._loop = asyncio.get_running_loop()
        self._open: dict[Connection, asyncio.Task[None]] = {}
        self._resume_timer: asyncio.TimerHandle | None = None
        self._is_out_of_files = False
        sock.settimeout(0)
        self._resume()

    @property
    def connections(self) -> int:
        """The number of open connections, including handshakes."""
        return len(self._open)

    async def close(self) -> None:
        """Stop accepting, and cancel the handshakes in progress."""
        if self._resume_timer is None:
            self._loop.remove_reader(self._sock.fileno())
        else:
            self._resume_timer.cancel()
        self._sock.close()
        handshakes = [task for task in self._open.values() if not task.done()]
        for task in handshakes:
            task.cancel()
        await asyncio.gather(*handshakes, return_exceptions=True)

    def _resume(self) -> None:
        self._resume_timer = None
        self._loop.add_reader(self._sock.fileno(), self._accept)

    def _accept(self) -> None:
        """Accept one connection; the event loop calls this again for the next one.

        Only one is accepted per call, so that a connection that is closed for it is
        gone before the next one is accepted.
        """
        try:
            sock, peer = self._sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return  # the peer has disconnected meanwhile
        except OSError as error:
            self._pause(error)
            return
        self._is_out_of_files = False
        try:
            is_local = self._local_peers.has(peer[0], sock.getsockname()[0])
            # First: a connection that is refused must close no other one.
            wait = self._handshakes.admit(peer[0], is_local=is_local)
        except TooManyHandshakes:
            self._metrics.handshake_refused()
            sock.close()
            return
        if len(self._open) >= self._limits.connections and not self._evict():
            self._metrics.refused()
            sock.close()
            return
        sock.settimeout(0)
        connection = self._connect(self._remove)
        task = self._loop.create_task(
            self._shake_hands(sock, connection, wait, is_local=is_local),
            name="tls-handshake",
        )
        self._open[connection] = task
        task.add_done_callback(lambda task: self._close_failed(task, sock, connection))

    def _pause(self, error: OSError) -> None:
        """Pause accepting: the socket stays readable, so the event loop would spin."""
        if not self._is_out_of_files:
            self._is_out_of_files = True
            why = os.strerror(error.errno) if error.errno else str(error)
            self._logger.warning(
                "Cannot accept connections, trying again each second", err=why
            )
        self._evict()
        self._loop.remove_reader(self._sock.fileno())
        self._resume_timer = self._loop.call_later(_PAUSE_SECONDS, self._resume)

    def _evict(self) -> bool:
        """Close the connection that has waited longest; tell whether there was one."""
        longest: Connection | None = None
        since = float("inf")
        for each in self._open:
            if each.waiting_since is not None and each.waiting_since < since:
                longest, since = each, each.waiting_since
        if longest is None:
            return False
        self._metrics.evicted()
        task = self._open.pop(longest)
        if longest.is_made:
            longest.abort()
        else:
            task.cancel()
        return True

    async def _shake_hands(
        self,
        sock: socket.socket,
        connection: Connection,
        wait: float,
        *,
        is_local: bool,
    ) -> None:
        await _sleep(wait)
        if not is_local:
            # Only now: connections of a peer that wait for each other delay no others.
            await _sleep(self._handshakes.admit_to_all())
        tls = self._tls(connection)
        try:
            await self._loop.connect_accepted_socket(lambda: tls, sock)
            await tls.handshaken
        except asyncio.CancelledError:
            tls.abort()
            raise

    def _close_failed(
        self, task: "asyncio.Task[None]", sock: socket.socket, connection: Connection
    ) -> None:
        """Close the connection if its handshake failed."""
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            return
        self._remove(connection)
        sock.close()
        if isinstance(error, TooManyHandshakes):
            self._metrics.handshake_refused()
        elif isinstance(error, OSError):
            self._logger.v(4).info("TLS handshake failed", err=str(error))
        elif error is not None:
            self._logger.error("TLS handshake failed", exc_info=error)

    def _remove(self, connection: Connection) -> None:
        self._open.pop(connection, None)


async def _sleep(seconds: float) -> None:
    """Sleep, but do not even yield for zero seconds."""
    if seconds > 0:
        await asyncio.sleep(seconds)
