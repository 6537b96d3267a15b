"""Requests through a proxy, sent by aiohttp.

The session has no cookies and does not read the environment for each request.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final
from urllib.parse import quote, urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from controller_manager.client.credentials import Identity
from controller_manager.client.errors import (
    RequestTimeout,
    TransportError,
)
from controller_manager.client.files import FileReserve
from controller_manager.client.transport import Request, Response, Stream
from controller_manager.client.wire.attempts import Attempt, Connector
from controller_manager.client.wire.dialing import (
    CONNECT_TIMEOUT,
    ObserveLookUp,
    keepalive_socket,
    not_connected,
)
from controller_manager.client.wire.failures import failure_of
from controller_manager.client.wire.resolver import MeasuringResolver
from controller_manager.client.wire.sessions import Session, Sessions
from controller_manager.urls import without_user

_PATIENCE: Final = 1.0
"""Seconds of waiting after which a cancelled request counts as not answered."""

_READ_BUFFER: Final = 1 << 20


class ProxiedWire:
    """Sends requests to one server through a proxy, or without one."""

    def __init__(
        self,
        server: str,
        user_agent: str,
        proxy: str | None,
        tls_server_name: str | None,
        reserve: FileReserve,
        observe_look_up: ObserveLookUp,
    ) -> None:
        """Take the URLs of the server and the proxy; call this in a running loop."""
        self._base = server.rstrip("/")
        self._host = urlsplit(server).netloc
        self._user_agent = user_agent
        self._proxy = proxy
        self._tls_server_name = tls_server_name
        self._reserve = reserve
        self._resolver = MeasuringResolver(observe_look_up)
        self._sessions = Sessions(self._make_session)

    def _make_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=Connector(
                limit=0,  # each watch has a connection; clients limit the others
                keepalive_timeout=60,  # below the 90 s after which a server closes
                socket_factory=self._make_socket,
                use_dns_cache=False,
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
        return self._reserve.open(lambda: keepalive_socket(address))

    async def request(
        self, request: Request, identity: Identity, deadline: float
    ) -> Response:
        """Send and read the whole answer until `deadline`, a time of the loop.

        A request without an answer leaves the idle connections behind.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT)
        session = self._sessions.take()
        try:
            with self._failing(session, request):
                async with asyncio.timeout_at(deadline):
                    sent = self._send(session, identity, request, timeout)
                    async with await sent as answer:
                        body = await answer.read()
                        headers = _lower(answer.headers)
                        return Response(answer.status, headers, body)
        finally:
            await self._sessions.give_back(session)

    async def stream(
        self, request: Request, identity: Identity, deadline: float
    ) -> Stream:
        """Send; return as soon as the status and the headers have arrived.

        A stream that brings nothing leaves the idle connections behind.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT, sock_read=request.timeout
        )
        session = self._sessions.take()
        try:
            # No other limit detects a proxy that hangs.
            with self._failing(session, request):
                async with asyncio.timeout_at(deadline):
                    answer = await self._send(session, identity, request, timeout)
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
        """Return the error to raise; leave connections behind that may be dead, too."""
        failure = _transport_error(request, self._host, error)
        if isinstance(failure, RequestTimeout):
            self._sessions.replace(session)
        return failure

    async def _send(
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
                    proxy=self._proxy,
                    server_hostname=self._tls_server_name,
                    allow_redirects=False,
                )
        except aiohttp.ClientError as error:
            if attempt.refusal is not None:
                raise attempt.refusal from error
            raise

    async def close(self) -> None:
        """Close all connections."""
        await self._sessions.close()
        await self._resolver.close()
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
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return not_connected(what, error.certificate_error)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return not_connected(what, TimeoutError())
    if isinstance(error, aiohttp.ClientConnectorError):
        is_tls = isinstance(error, ssl.SSLError)
        return not_connected(what, error if is_tls else error.os_error)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        # The text of the error has the proxy's URL, with its password.
        proxy = without_user(str(error.request_info.real_url))
        return TransportError(
            f"{what}: the proxy {proxy} answered {error.status} {error.message}"
        )
    return failure_of(what, request, error)
