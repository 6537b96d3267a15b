"""The HTTP transport: an aiohttp session, tuned for many small requests.

The session has no cookies and does not read the environment for each request. A call of
kubernetes_asyncio costs 177 µs, a call here 40: the difference is mostly two thread
switches for ``trust_env``, and the model layer. Relative cost of a small POST,
measured in one run: aiohttp 1, httpx 14 to 19, a bare asyncio stream 0.3 to 0.4. A
bare stream would save a tenth of the CPU of a rollout, but this project would have
to maintain an HTTP implementation.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from urllib.parse import quote, urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from controller_manager.client.attempts import Attempt, Connector
from controller_manager.client.credentials import Credentials, Identity
from controller_manager.client.errors import (
    NotSent,
    RequestTimeout,
    TransportError,
    UntrustedServer,
)
from controller_manager.client.files import FileReserve
from controller_manager.client.kubeconfig import ConfigError
from controller_manager.client.resolver import (
    MeasuringResolver,
    ObserveLookUp,
    ignore_look_up,
)
from controller_manager.client.sessions import Session, Sessions
from controller_manager.client.transport import Request, Response, Stream
from controller_manager.urls import without_user

_CONNECT_TIMEOUT = 10.0
_DNS_SECONDS = 30
"""Seconds for which resolved addresses are cached: a DNS look-up opens files.

After a failed connection they are looked up at once.
"""

_PATIENCE = 1.0
"""Seconds of waiting after which a cancelled request counts as not answered.

The requests about the lease are cancelled so: an attempt has less time than they have.
"""

_READ_BUFFER = 1 << 20


class HTTPTransport:
    """Sends requests to the server that `credentials` name.

    A request is sent once, see `attempts`. After a 401 the credentials read their files
    and run their plugins again; if they have changed, the request is sent once more.
    """

    def __init__(
        self,
        credentials: Credentials,
        user_agent: str,
        reserve: FileReserve | None = None,
        observe_look_up: ObserveLookUp = ignore_look_up,
    ) -> None:
        """Take the server and the identity; call this in a running event loop.

        With a `reserve`, the transport can connect when the process has no free file
        descriptor. The transport owns the reserve and closes it. `observe_look_up` is
        called after each look-up of a name.
        """
        self._credentials = credentials
        self._reserve = reserve or FileReserve(0)
        self._base = credentials.server.rstrip("/")
        self._host = urlsplit(self._base).netloc
        self._user_agent = user_agent
        self._resolver = MeasuringResolver(observe_look_up)
        self._sessions = Sessions(self._make_session)

    @property
    def host(self) -> str:
        """``host:port`` of the server."""
        return self._host

    def _make_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=Connector(
                limit=0,  # each watch has a connection; clients limit the others
                keepalive_timeout=60,  # below the 90 s after which a server closes
                socket_factory=self._make_socket,
                ttl_dns_cache=_DNS_SECONDS,
                resolver=self._resolver,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=True,
            headers={"User-Agent": self._user_agent},
            read_bufsize=_READ_BUFFER,
            skip_auto_headers={"Accept", "Content-Type"},
        )

    def _make_socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        return self._reserve.open(lambda: _keepalive_socket(address))

    async def request(self, request: Request) -> Response:
        """Send and read the whole answer within the request's timeout.

        A request without an answer leaves the idle connections behind.
        """
        self._reserve.refill()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT)
        session = self._sessions.take()
        try:
            # One deadline covers everything: plugins, the retry, the answer.
            with self._failing(session, request):
                async with asyncio.timeout(request.timeout):
                    return await self._exchange(session, request, timeout)
        finally:
            await self._sessions.give_back(session)

    async def _exchange(
        self, session: Session, request: Request, limits: aiohttp.ClientTimeout
    ) -> Response:
        async with await self._send(session, request, limits) as answer:
            body = await answer.read()
            return Response(answer.status, _lower(answer.headers), body)

    async def stream(self, request: Request) -> Stream:
        """Send; return as soon as the status and the headers have arrived.

        A stream that brings nothing leaves the idle connections behind.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_TIMEOUT, sock_read=request.timeout
        )
        session = self._sessions.take()
        try:
            # No other limit detects a proxy that hangs.
            with self._failing(session, request):
                async with asyncio.timeout(request.timeout):
                    answer = await self._send(session, request, timeout)
        except BaseException:
            await self._sessions.give_back(session)
            raise
        failed = partial(self._failed, request)
        return _HTTPStream(answer, self._sessions, session, failed)

    @contextmanager
    def _failing(self, session: Session, request: Request) -> Iterator[None]:
        """Raise failures of a request as errors of the transport."""
        started = asyncio.get_running_loop().time()
        try:
            yield
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._failed(request, session, error) from error
        except asyncio.CancelledError:
            if asyncio.get_running_loop().time() - started >= _PATIENCE:
                self._sessions.replace(session)
            raise

    def _failed(
        self, request: Request, session: Session, error: BaseException
    ) -> TransportError:
        """Return the error to raise; drop connections and addresses that may be stale.

        A server that cannot be connected to may have another address now. A server
        that does not answer may be dead, and the idle connections with it.
        """
        failure = _transport_error(request, self._host, error)
        if isinstance(failure, NotSent):
            session.forget_addresses()
        elif isinstance(failure, RequestTimeout):
            self._sessions.replace(session)
        return failure

    async def _send(
        self, session: Session, request: Request, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        try:
            identity = await self._credentials.identity()
            answer = await self._send_as(session, identity, request, limits)
            refused = (
                answer.status == HTTPStatus.UNAUTHORIZED
                and "authorization" not in request.headers
            )
            if not refused or not await self._is_renewed(identity, answer):
                return answer
            identity = await self._credentials.identity()
        except ConfigError as error:
            # A plugin that fails now may work later, so the caller may retry.
            raise NotSent(str(error)) from error
        return await self._send_as(session, identity, request, limits)

    async def _is_renewed(
        self, identity: Identity, answer: aiohttp.ClientResponse
    ) -> bool:
        """Renew the credentials; tell whether a retry makes sense.

        If so, the connection of `answer` is released.
        """
        try:
            renewed = await self._credentials.refresh(identity)
        except BaseException:
            answer.close()
            raise
        if renewed:
            answer.release()
        return renewed

    async def _send_as(
        self,
        session: Session,
        identity: Identity,
        request: Request,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        headers = CIMultiDict(identity.headers)
        headers.update(request.headers)
        url = self._base + quote(request.path)
        if request.query:
            url += "?" + "&".join(
                f"{quote(name, safe='')}={quote(value, safe='')}"
                for name, value in request.query
            )
        attempt = Attempt(request)
        try:
            with attempt.current():
                return await session.http.request(
                    request.method,
                    URL(url, encoded=True),
                    data=attempt.body(),
                    headers=headers,
                    timeout=limits,
                    ssl=identity.tls,
                    proxy=self._credentials.proxy,
                    server_hostname=self._credentials.tls_server_name,
                    allow_redirects=False,
                )
        except aiohttp.ClientError as error:
            if attempt.refusal is not None:
                raise attempt.refusal from error
            raise

    async def close(self) -> None:
        """Close all connections."""
        await self._credentials.close()
        await self._sessions.close()
        await self._resolver.close()
        self._reserve.close()
        # aiohttp closes TLS transports in the next turns of the loop.
        await asyncio.sleep(0)


class _HTTPStream:
    def __init__(
        self,
        answer: aiohttp.ClientResponse,
        sessions: Sessions,
        session: Session,
        failed: Callable[[Session, BaseException], TransportError],
    ) -> None:
        self._answer = answer
        self._sessions = sessions
        self._session = session
        self._failed = failed
        self._is_open = True

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        return _lower(self._answer.headers)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._answer.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._failed(self._session, error) from error

    async def close(self) -> None:
        self._answer.close()
        if self._is_open:
            self._is_open = False
            await self._sessions.give_back(self._session)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    lower: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        lower[key] = f"{lower[key]}, {value}" if key in lower else value
    return lower


def _transport_error(
    request: Request, host: str, error: BaseException
) -> TransportError:
    what = f"{request.method} {request.path} at {host}"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return _not_connected(what, error)
    if isinstance(error, TimeoutError):
        return RequestTimeout(f"{what}: no answer within {request.timeout:g} s")
    if isinstance(error, ssl.SSLError):
        return TransportError(f"{what}: no TLS connection: {error.reason or error}")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        # The text of the error has the proxy's URL, with its password.
        proxy = without_user(str(error.request_info.real_url))
        return TransportError(
            f"{what}: the proxy {proxy} answered {error.status} {error.message}"
        )
    return TransportError(f"{what}: {error or type(error).__name__}")


def _not_connected(
    what: str, error: aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError
) -> NotSent:
    """Return the error for a failed connection; the request was never sent."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return NotSent(f"{what}: cannot connect within {_CONNECT_TIMEOUT:g} s")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        why = getattr(cause, "verify_message", None) or cause
        return UntrustedServer(
            f"{what}: the certificate is not trusted: {why}; check the kubeconfig's "
            "certificate-authority and server"
        )
    if isinstance(error, ssl.SSLError):
        return NotSent(f"{what}: no TLS connection: {error.reason or error}")
    # The text of the error depends on the event loop, so the text of its number is
    # used. A failed DNS look-up has a negative number, which only its text explains.
    number = error.os_error.errno or 0
    reason = os.strerror(number) if number > 0 else str(error.os_error)
    return NotSent(f"{what}: cannot connect: {reason}")


def _keepalive_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket that detects within a minute that its peer is gone."""
    family, kind, protocol, _, _ = address
    sock = socket.socket(family=family, type=kind, proto=protocol)
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
