"""Requests through a proxy, sent by aiohttp.

The session has no cookies and does not read the environment for each request.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final
from urllib.parse import quote, urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from controller_manager.client.credentials import Identity
from controller_manager.client.errors import TransportError
from controller_manager.client.files import FileReserve
from controller_manager.client.transport import Request, Response, Stream
from controller_manager.client.wire.answers import MalformedAnswer
from controller_manager.client.wire.attempts import Attempt, Connector
from controller_manager.client.wire.closing import InProgress, TransportClosed
from controller_manager.client.wire.compression import (
    decompressed,
    gzip_content,
    too_large,
)
from controller_manager.client.wire.dialing import (
    CONNECT_TIMEOUT,
    ObserveLookUp,
    keepalive_socket,
)
from controller_manager.client.wire.failures import failure_of, no_answer
from controller_manager.client.wire.proxy_failures import not_sent
from controller_manager.client.wire.proxy_user import without_proxy_user
from controller_manager.client.wire.resolver import MeasuringResolver
from controller_manager.client.wire.sessions import Session, Sessions

_PATIENCE: Final = 1.0
"""Seconds of waiting after which a cancelled request counts as not answered."""

_READ_BUFFER: Final = 1 << 20

_FAILURES: Final = (aiohttp.ClientError, MalformedAnswer, OSError, TransportClosed)


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
        self._proxy, self._proxy_user = without_proxy_user(proxy) if proxy else ("", {})
        self._is_tunnelled = urlsplit(server).scheme == "https"
        self._tls_server_name = tls_server_name
        self._reserve = reserve
        self._resolver = MeasuringResolver(observe_look_up)
        self._sessions = Sessions(self._make_session)
        self._in_progress = InProgress()

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
            auto_decompress=False,  # it knows no limit, and takes content cut short
            headers={"User-Agent": self._user_agent, "Accept-Encoding": "gzip"},
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
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT)
        attempt, most = Attempt(request), request.largest_answer
        session = self._sessions.take()
        try:
            with self._failing(session, request, attempt):
                async with self._in_progress.until(deadline):
                    sent = await self._send(session, identity, attempt, limits)
                    async with sent as answer:
                        headers = _lower(answer.headers)
                        body = await _whole_body(answer, most)
                        body = await decompressed(headers, body, most)
                        return Response(answer.status, headers, body)
        finally:
            await self._sessions.give_back(session)

    async def stream(
        self, request: Request, identity: Identity, deadline: float
    ) -> Stream:
        """Send; return as soon as the status and the headers have arrived.

        A stream without them leaves the idle connections behind.
        """
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT, sock_read=request.timeout
        )
        attempt = Attempt(request)
        session = self._sessions.take()
        try:
            # No other limit detects a proxy that hangs.
            with self._failing(session, request, attempt):
                async with self._in_progress.until(deadline):
                    answer = await self._send(session, identity, attempt, limits)
        except BaseException:
            await self._sessions.give_back(session)
            raise
        failed = partial(failure_of, self._named(request), request)
        return _HTTPStream(answer, self._sessions, session, failed)

    @contextmanager
    def _failing(
        self, session: Session, request: Request, attempt: Attempt
    ) -> Iterator[None]:
        """Raise failures of a request as errors of the transport."""
        started = asyncio.get_running_loop().time()
        try:
            yield
        except _FAILURES as error:
            raise self._failed(request, attempt, session, error) from error
        except asyncio.CancelledError:
            if asyncio.get_running_loop().time() - started >= _PATIENCE:
                self._sessions.replace(session)
            raise

    def _failed(
        self,
        request: Request,
        attempt: Attempt,
        session: Session,
        error: BaseException,
    ) -> TransportError:
        """Return the error to raise; leave connections behind that may be dead, too."""
        what = self._named(request)
        if isinstance(error, TimeoutError) and not isinstance(
            error, aiohttp.ConnectionTimeoutError
        ):
            self._sessions.replace(session)
            return no_answer(what, request)
        if attempt.may_be_sent:
            return failure_of(what, request, error)
        return not_sent(what, self._proxy, error)

    def _named(self, request: Request) -> str:
        return f"{request.method} {request.path} at {self._host}"

    async def _send(
        self,
        session: Session,
        identity: Identity,
        attempt: Attempt,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        request = attempt.request
        headers = CIMultiDict(identity.headers)
        headers.update(request.headers)
        if not self._is_tunnelled:
            headers.update(self._proxy_user)
        url = self._base + quote(request.path)
        if request.query:
            url += "?" + "&".join(
                f"{quote(name, safe='')}={quote(value, safe='')}"
                for name, value in request.query
            )
        try:
            with attempt.current():
                return await session.http.request(
                    request.method,
                    URL(url, encoded=True),
                    data=attempt.body(),
                    headers=headers,
                    timeout=limits,
                    ssl=identity.tls,
                    proxy=self._proxy or None,
                    proxy_headers=dict(self._proxy_user),  # aiohttp changes it
                    server_hostname=self._tls_server_name,
                    allow_redirects=False,
                )
        except aiohttp.ClientError as error:
            if attempt.refusal is not None:
                raise attempt.refusal from error
            raise

    async def close(self) -> None:
        """Close all connections, and those that are being opened."""
        await self._in_progress.close()
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
        failed: Callable[[BaseException], TransportError],
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
            compressed = gzip_content(self.headers)
            while data := await self._answer.content.readany():
                if compressed is None:
                    yield data
                    continue
                for piece in compressed.pieces(data):
                    yield piece
            if compressed is not None:
                compressed.end()
        except _FAILURES as error:
            raise self._failed(error) from error

    async def close(self) -> None:
        self._answer.close()
        if self._is_open:
            self._is_open = False
            await self._sessions.give_back(self._session)


async def _whole_body(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """Return the body as it was sent, which may have `most` bytes."""
    parts: list[bytes] = []
    left = most
    while data := await answer.content.readany():
        left -= len(data)
        if left < 0:
            raise too_large(most)
        parts.append(data)
    return b"".join(parts)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    lower: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        lower[key] = f"{lower[key]}, {value}" if key in lower else value
    return lower
