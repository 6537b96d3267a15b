"""The HTTP transport: one server, one identity, many small requests.

Their bytes go over connections of our own, see `client.wire`. A request needs no task
and no timer of its own, and is written by one call.
"""

import asyncio
import math
import ssl
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlsplit

from controller_manager.client.identity.credentials import (
    Credentials,
    Headers,
    Identity,
)
from controller_manager.client.identity.kubeconfig import ConfigError
from controller_manager.client.rest.errors import (
    NotSent,
    RequestTimeout,
    TransportError,
)
from controller_manager.client.rest.transport import Request, Response, Stream

from .answers import Head, MalformedAnswer
from .compression import decompressed, too_large
from .connection import Connection, ConnectionBroken, Receiver
from .dialing import (
    FAILURES,
    Dialer,
    ObserveLookUp,
    ignore_look_up,
    not_connected,
    proxy_at,
)
from .file_reserve import FileReserve
from .pool import Pool, TransportClosed
from .streams import ConnectionStream

_PATIENCE: Final = 1.0
"""Seconds of waiting after which a cancelled request counts as not answered.

The requests about the lease are cancelled so: an attempt has less time than they have.
"""

_RECENT: Final = 10.0
"""Seconds for which an answer shows that its connection works, for a stream."""

_WITH_BODY: Final = frozenset(("POST", "PUT", "PATCH"))
"""The methods whose requests tell that they have no body."""


class Wire:
    """Sends requests to one server, each at most once.

    A server without TLS behind a proxy gets them from the proxy, which reads whole URLs
    and takes the header with its user away.
    """

    def __init__(self, server: str, user_agent: str, dialer: Dialer) -> None:
        """Call this in a running event loop."""
        parts = urlsplit(server)
        forwarder = dialer.forwarder
        self._host = parts.netloc
        self._prefix = (server if forwarder else parts.path).rstrip("/")
        self._fixed = (
            ("Host", self._host),
            ("User-Agent", user_agent),
            ("Accept-Encoding", "gzip"),
            *(forwarder.user if forwarder else ()),
        )
        self._dialer = dialer
        self._loop = asyncio.get_running_loop()
        self._pool = Pool(self._loop)

    async def request(
        self, request: Request, identity: Identity, deadline: float
    ) -> Response:
        """Send and read the whole answer until `deadline`, a time of the loop."""
        connection = await self._connection(request, identity, deadline)
        receiver = _WholeAnswer(self._loop, request.largest_answer)
        self._send(connection, request, identity, receiver, deadline)
        started = self._loop.time()
        try:
            head = await receiver.answered
        except asyncio.CancelledError:
            self._cancelled(connection, receiver, started)
            raise
        except (ConnectionBroken, MalformedAnswer, OSError) as error:
            raise self._failed(request, connection, error) from error
        body = receiver.body()
        if "content-encoding" in head.headers:
            try:
                body = await decompressed(head.headers, body, request.largest_answer)
            except MalformedAnswer as error:
                raise self._failed(request, connection, error) from error
        return Response(head.status, head.headers, body)

    async def stream(
        self, request: Request, identity: Identity, deadline: float
    ) -> Stream:
        """Send; return as soon as the head has arrived.

        A stream takes an idle connection only if it brought an answer a moment ago. Its
        predecessor may have been silent because the connections lead to a dead server,
        and a stream that waits for its head is as long without events again.
        """
        recent = self._loop.time() - _RECENT
        connection = await self._connection(request, identity, deadline, recent)
        failed = partial(self._ended, request)
        stream = ConnectionStream(self._pool, connection, request.timeout, failed)
        self._send(connection, request, identity, stream, deadline)
        started = self._loop.time()
        try:
            await stream.begin(deadline)
        except asyncio.CancelledError:
            self._cancelled(connection, stream, started)
            raise
        except (ConnectionBroken, MalformedAnswer, OSError) as error:
            raise self._failed(request, connection, error) from error
        return stream

    def _send(
        self,
        connection: Connection,
        request: Request,
        identity: Identity,
        receiver: Receiver,
        deadline: float,
    ) -> None:
        """Write the request, if it may be written now; raises NotSent if not."""
        try:
            content = self._content(request, identity.headers)
            if request.before_write is not None:
                request.before_write()
        except BaseException:
            self._pool.freed(connection)  # nothing was written on it
            raise
        connection.send(content, receiver, is_head=request.method == "HEAD")
        self._pool.set_deadline(connection, deadline)

    async def _connection(
        self,
        request: Request,
        identity: Identity,
        deadline: float,
        since: float = -math.inf,
    ) -> Connection:
        """Return a connection to send on, an idle one that was used since, if any."""
        connection = self._pool.take(identity.tls, since)
        if connection is not None:
            return connection
        what = self._named(request)
        try:
            async with self._dialer.in_progress.until(deadline) as whole:
                return await self._dialer.open(self._pool, identity)
        except TransportClosed as error:
            msg = f"{what}: {error}"
            raise NotSent(msg) from error
        except FAILURES as error:
            if whole.expired():
                raise no_answer(what, request) from error
            raise not_connected(what, error) from error

    def _content(self, request: Request, identity: Headers) -> bytes:
        target = self._prefix + quote(request.path)
        if request.query:
            target += "?" + "&".join(
                f"{quote(name, safe='')}={quote(value, safe='')}"
                for name, value in request.query
            )
        head = self._head(identity, request.headers)
        line = f"{request.method} {target} HTTP/1.1\r\n".encode("ascii")
        body = request.body
        if body is None:
            if request.method in _WITH_BODY:
                return b"%b%bContent-Length: 0\r\n\r\n" % (line, head)
            return b"%b%b\r\n" % (line, head)
        return b"%b%bContent-Length: %d\r\n\r\n%b" % (line, head, len(body), body)

    def _head(self, identity: Headers, own: Mapping[str, str]) -> bytes:
        names = {each.lower() for each in own}
        given = [each for each in identity if each[0].lower() not in names]
        return _lines((*self._fixed, *given, *own.items()))

    def _named(self, request: Request) -> str:
        return f"{request.method} {request.path} at {self._host}"

    def _cancelled(
        self, connection: Connection, receiver: Receiver, started: float
    ) -> None:
        if not connection.carries(receiver):
            return
        if self._loop.time() - started >= _PATIENCE:
            self._pool.leave_behind(connection)
        connection.abort()

    def _failed(
        self, request: Request, connection: Connection, error: BaseException
    ) -> TransportError:
        """Return the error to raise; close connections that may be dead, too."""
        failure = _failure_of(self._named(request), request, error)
        if isinstance(failure, RequestTimeout):
            self._pool.leave_behind(connection)
        return failure

    def _ended(
        self, request: Request, _: Connection, error: BaseException
    ) -> TransportError:
        """Return the error of a stream that had begun; others may work."""
        return _failure_of(self._named(request), request, error)

    async def close(self) -> None:
        """Close all connections, and those that are being opened."""
        self._pool.close()
        await self._dialer.in_progress.close()
        # The event loop closes the sockets in its next turns.
        await asyncio.sleep(0)


class _WholeAnswer:
    __slots__ = ("_head", "_left", "_most", "_parts", "answered")

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self.answered: asyncio.Future[Head] = loop.create_future()
        self._parts: list[bytes] = []
        self._head: Head | None = None
        self._left = self._most = most

    def body(self) -> bytes:
        """Return the body; the answer is whole."""
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def head_received(self, head: Head) -> None:
        self._head = head

    def data_received(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self._parts.clear()
            raise too_large(self._most)
        self._parts.append(data)

    def ended(self) -> None:
        assert self._head is not None  # noqa: S101 - it came before the body
        if not self.answered.done():
            self.answered.set_result(self._head)

    def failed(self, error: Exception) -> None:
        if not self.answered.done():
            self.answered.set_exception(error)


def no_answer(what: str, request: Request) -> RequestTimeout:
    """Return the error for a request that was not answered in time."""
    return RequestTimeout(f"{what}: no answer within {request.timeout:g} s")


def _failure_of(what: str, request: Request, error: BaseException) -> TransportError:
    """Return the error for a request that was sent, at least in part."""
    if isinstance(error, TimeoutError):  # also one of the socket
        return no_answer(what, request)
    if isinstance(error, ssl.SSLError):
        return TransportError(f"{what}: no TLS connection: {error.reason or error}")
    return TransportError(f"{what}: {error or type(error).__name__}")


def _lines(headers: tuple[tuple[str, str], ...]) -> bytes:
    """Return the headers as lines; raises NotSent for one that would be two lines."""
    for name, value in headers:
        if "\r" in f"{name}{value}" or "\n" in f"{name}{value}":
            msg = f"the header {name!r} contains characters that cannot be sent"
            raise NotSent(msg)
    return "".join(f"{name}: {value}\r\n" for name, value in headers).encode()


class HTTPTransport:
    """Sends requests to the server that `credentials` name.

    A request is sent once: if its connection breaks, the caller decides whether it is
    sent again. After a 401 the credentials read their files and run their plugins
    again; if they have changed, the request is sent once more.
    """

    def __init__(
        self,
        credentials: Credentials,
        user_agent: str,
        reserve: FileReserve | None = None,
        observe_look_up: ObserveLookUp = ignore_look_up,
    ) -> None:
        """Call this in a running event loop.

        With a `reserve`, the transport can connect when the process has no free file
        descriptor. The transport owns the reserve and closes it. `observe_look_up` is
        called after each look-up of a name.
        """
        self._credentials = credentials
        self._reserve = reserve or FileReserve(0)
        self._host = urlsplit(credentials.server).netloc
        self._loop = asyncio.get_running_loop()
        proxy = proxy_at(credentials.proxy) if credentials.proxy else None
        server, tls_name = credentials.server, credentials.tls_server_name
        dialer = Dialer(server, tls_name, proxy, self._reserve, observe_look_up)
        self._wire = Wire(server, user_agent, dialer)

    @property
    def host(self) -> str:
        """``host:port`` of the server."""
        return self._host

    async def request(self, request: Request) -> Response:
        """Send and read the whole answer within the request's timeout.

        One deadline covers everything: plugins, the second try, the answer. A request
        without an answer leaves the idle connections behind.
        """
        self._reserve.refill()
        deadline = self._loop.time() + request.timeout
        identity = await self._identity(request, deadline)
        answer = await self._wire.request(request, identity, deadline)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            renewed = await self._renewed(request, identity, deadline)
            if renewed is not None:
                return await self._wire.request(request, renewed, deadline)
        return answer

    async def stream(self, request: Request) -> Stream:
        """Send; return as soon as the status and the headers have arrived.

        A stream without them leaves the idle connections behind; one that falls silent
        later closes its own connection only.
        """
        deadline = self._loop.time() + request.timeout
        identity = await self._identity(request, deadline)
        answer = await self._wire.stream(request, identity, deadline)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            try:
                renewed = await self._renewed(request, identity, deadline)
            except BaseException:
                await answer.close()
                raise
            if renewed is not None:
                await answer.close()
                return await self._wire.stream(request, renewed, deadline)
        return answer

    async def _identity(self, request: Request, deadline: float) -> Identity:
        """Return the identity to present; raises NotSent if there is none now."""
        if not self._credentials.may_wait:
            return await self._present()
        try:
            async with asyncio.timeout_at(deadline):
                return await self._present()
        except TimeoutError as error:
            raise no_answer(self._named(request), request) from error

    async def _present(self) -> Identity:
        try:
            return await self._credentials.identity()
        except ConfigError as error:
            # A plugin that fails now may work later, so the caller may retry.
            raise NotSent(str(error)) from error

    async def _renewed(
        self, request: Request, refused: Identity, deadline: float
    ) -> Identity | None:
        """Return another identity after a 401, `None` if there is no other."""
        if "authorization" in request.headers:
            return None
        try:
            async with asyncio.timeout_at(deadline):
                if not await self._credentials.refresh(refused):
                    return None
                return await self._present()
        except TimeoutError as error:
            raise no_answer(self._named(request), request) from error
        except ConfigError as error:
            raise NotSent(str(error)) from error

    def _named(self, request: Request) -> str:
        return f"{request.method} {request.path} at {self._host}"

    async def close(self) -> None:
        """Close all connections."""
        await self._credentials.close()
        await self._wire.close()
        self._reserve.close()
