"""Accepting connections, as many as the process has files for.

The accepting is done here and not by the event loop, since only here a
connection can be counted and closed before its TLS handshake.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final

from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics import ServingCollectors
from controller_manager.serving.connection import Connection
from controller_manager.serving.limits import ConnectionLimits

_BACKLOG: Final = 128
_REST: Final = 1.0
"""Seconds until the next try after the process had no file left for a peer."""

_Closed = Callable[[Connection], None]


def bind(host: str, port: int, *, share_port: bool = False) -> socket.socket:
    """Return a socket that listens on an IP address; raises OSError.

    ``::`` stands for all interfaces of both families, as in Go.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server(
        (host, port),
        family=family,
        backlog=_BACKLOG,
        reuse_port=share_port,
        dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
    )


class Listener:
    """Accepts connections on a socket, at most `limits.connections` at a time.

    When there are as many, the one that has waited for its peer longest is
    closed in favour of the new one: half-open and idle connections keep nobody
    out. Only when all are in the middle of a request the new one is closed.
    """

    def __init__(
        self,
        sock: socket.socket,
        tls: Callable[[], ssl.SSLContext],
        connect: Callable[[_Closed], Connection],
        limits: ConnectionLimits,
        metrics: ServingCollectors,
        logger: Logger,
    ) -> None:
        """Take a listening socket, which is closed with the listener.

        `tls` returns the settings of one connection; `connect` makes what
        speaks with its peer, given what to call when it is closed.
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
        self._resting: asyncio.TimerHandle | None = None
        self._is_short = False
        sock.settimeout(0)
        self._resume()

    @property
    def connections(self) -> int:
        """How many connections there are, handshakes included."""
        return len(self._open)

    async def close(self) -> None:
        """Accept no more, and give up the handshakes in progress."""
        if self._resting is None:
            self._loop.remove_reader(self._sock.fileno())
        else:
            self._resting.cancel()
        self._sock.close()
        handshakes = [task for task in self._open.values() if not task.done()]
        for task in handshakes:
            task.cancel()
        await asyncio.gather(*handshakes, return_exceptions=True)

    def _resume(self) -> None:
        self._resting = None
        self._loop.add_reader(self._sock.fileno(), self._accept)

    def _accept(self) -> None:
        """Accept one connection; the loop calls again if another one waits.

        One at a time, so that what is closed for a new one is gone before the
        next one comes.
        """
        try:
            sock, _ = self._sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return  # the peer has gone meanwhile
        except OSError as error:
            self._rest(error)
            return
        self._is_short = False
        if len(self._open) >= self._limits.connections and not self._evict():
            self._metrics.refused()
            sock.close()
            return
        sock.settimeout(0)
        connection = self._connect(self._forget)
        task = self._loop.create_task(
            self._shake_hands(sock, connection), name="tls-handshake"
        )
        self._open[connection] = task
        task.add_done_callback(lambda task: self._settle(task, sock, connection))

    def _rest(self, error: OSError) -> None:
        """Try again later: the socket stays readable, and the loop would spin."""
        if not self._is_short:
            self._is_short = True
            why = os.strerror(error.errno) if error.errno else str(error)
            self._logger.warning(
                "Cannot accept connections, trying again each second", err=why
            )
        self._evict()
        self._loop.remove_reader(self._sock.fileno())
        self._resting = self._loop.call_later(_REST, self._resume)

    def _evict(self) -> bool:
        """Close the connection that has waited longest; tell if there was one."""
        longest: Connection | None = None
        since = float("inf")
        for each in self._open:
            if each.waits_since is not None and each.waits_since < since:
                longest, since = each, each.waits_since
        if longest is None:
            return False
        self._metrics.evicted()
        task = self._open.pop(longest)
        if longest.is_made:
            longest.abort()
        else:
            task.cancel()
        return True

    async def _shake_hands(self, sock: socket.socket, connection: Connection) -> None:
        await self._loop.connect_accepted_socket(
            lambda: connection,
            sock,
            ssl=self._tls(),
            ssl_handshake_timeout=self._limits.handshake,
            ssl_shutdown_timeout=self._limits.closing,
        )

    def _settle(
        self, task: "asyncio.Task[None]", sock: socket.socket, connection: Connection
    ) -> None:
        """Close what has failed to shake hands."""
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            return
        self._forget(connection)
        sock.close()
        if isinstance(error, OSError):
            self._logger.v(4).info("TLS handshake failed", err=str(error))
        elif error is not None:
            self._logger.error("TLS handshake failed", exc_info=error)

    def _forget(self, connection: Connection) -> None:
        self._open.pop(connection, None)
