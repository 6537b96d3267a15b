"""HTTP, tuned: one session, no cookies, no environment look-ups a request.

kubernetes_asyncio's own call costs 177 µs against 40 here, most of it two
thread hops for ``trust_env`` and its model layer. Weighed against others in one
run, a small POST: aiohttp 1, httpx 14 to 19, a bare asyncio stream 0.3 to 0.4.
What the last would save, a tenth of a rollout's CPU, is not worth owning HTTP.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from http import HTTPStatus
from urllib.parse import quote, urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from controller_manager.client.credentials import Credentials, Identity
from controller_manager.client.errors import (
    NotSent,
    RequestTimeout,
    TransportError,
    UntrustedServer,
)
from controller_manager.client.files import FileReserve
from controller_manager.client.kubeconfig import ConfigError
from controller_manager.client.transport import Request, Response, Stream

_CONNECT_TIMEOUT = 10.0
_DNS_SECONDS = 300
"""For how long the addresses of a name are known: looking them up needs files."""

_READ_BUFFER = 1 << 20


class HTTPTransport:
    """Sends requests to the server that `credentials` name.

    An answer of 401 makes the credentials look at their files and plugins; if
    that changed something, the request is sent once more.
    """

    def __init__(
        self,
        credentials: Credentials,
        user_agent: str,
        reserve: FileReserve | None = None,
    ) -> None:
        """Take where to connect and as whom; must be made in a running loop.

        With a `reserve`, which becomes this transport's own, it can connect when
        no other file can be opened.
        """
        self._credentials = credentials
        self._reserve = reserve or FileReserve(0)
        self._base = credentials.server.rstrip("/")
        self._host = urlsplit(self._base).netloc
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # watches keep theirs; each client bounds the rest
                keepalive_timeout=60,  # below the 90 s after which a server closes
                socket_factory=self._make_socket,
                ttl_dns_cache=_DNS_SECONDS,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=True,
            headers={"User-Agent": user_agent},
            read_bufsize=_READ_BUFFER,
            skip_auto_headers={"Accept", "Content-Type"},
        )

    @property
    def host(self) -> str:
        """``host:port`` of the server."""
        return self._host

    def _make_socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        return self._reserve.opened(lambda: _keepalive_socket(address))

    async def request(self, request: Request) -> Response:
        """Send and read the whole answer within the request's timeout."""
        self._reserve.refill()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT)
        try:
            # One deadline for all of it: plugins, a second try, the answer.
            async with asyncio.timeout(request.timeout):
                return await self._exchange(request, timeout)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _transport_error(request, self._host, error) from error

    async def _exchange(
        self, request: Request, limits: aiohttp.ClientTimeout
    ) -> Response:
        async with await self._send(request, limits) as answer:
            body = await answer.read()
            return Response(answer.status, _lower(answer.headers), body)

    async def stream(self, request: Request) -> Stream:
        """Send and return once the head has come."""
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_TIMEOUT, sock_read=request.timeout
        )
        try:
            # A proxy that hangs is noticed by no other limit.
            async with asyncio.timeout(request.timeout):
                answer = await self._send(request, timeout)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _transport_error(request, self._host, error) from error
        return _HTTPStream(answer, request, self._host)

    async def _send(
        self, request: Request, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        try:
            identity = await self._credentials.present()
            answer = await self._send_as(identity, request, limits)
            refused = (
                answer.status == HTTPStatus.UNAUTHORIZED
                and "authorization" not in request.headers
            )
            if not refused or not await self._is_renewed(identity, answer):
                return answer
            identity = await self._credentials.present()
        except ConfigError as error:
            # A plugin that fails now may work again: no reason to give up.
            raise NotSent(str(error)) from error
        return await self._send_as(identity, request, limits)

    async def _is_renewed(
        self, identity: Identity, answer: aiohttp.ClientResponse
    ) -> bool:
        """Tell whether there is another identity to try; then drop the answer."""
        try:
            renewed = await self._credentials.refresh(identity)
        except BaseException:
            answer.close()
            raise
        if renewed:
            answer.release()
        return renewed

    async def _send_as(
        self, identity: Identity, request: Request, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        headers = CIMultiDict(identity.headers)
        headers.update(request.headers)
        url = self._base + quote(request.path)
        if request.query:
            url += "?" + "&".join(
                f"{quote(name, safe='')}={quote(value, safe='')}"
                for name, value in request.query
            )
        return await self._session.request(
            request.method,
            URL(url, encoded=True),
            data=request.body,
            headers=headers,
            timeout=limits,
            ssl=identity.tls,
            proxy=self._credentials.proxy,
            server_hostname=self._credentials.tls_server_name,
            allow_redirects=False,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._credentials.close()
        await self._session.close()
        self._reserve.close()
        # aiohttp closes TLS transports in the next turns of the loop.
        await asyncio.sleep(0)


class _HTTPStream:
    def __init__(
        self, answer: aiohttp.ClientResponse, request: Request, host: str
    ) -> None:
        self._answer = answer
        self._request = request
        self._host = host

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
            raise _transport_error(self._request, self._host, error) from error

    async def close(self) -> None:
        self._answer.close()


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
    return TransportError(f"{what}: {error or type(error).__name__}")


def _not_connected(
    what: str, error: aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError
) -> NotSent:
    """Return why there is no connection, over which nothing was sent therefore."""
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
    # asyncio words it differently from loop to loop; a failed look-up of the name
    # has a number below zero that only its own text explains.
    number = error.os_error.errno or 0
    reason = os.strerror(number) if number > 0 else str(error.os_error)
    return NotSent(f"{what}: cannot connect: {reason}")


def _keepalive_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket that notices within a minute that its peer is gone."""
    family, kind, protocol, _, _ = address
    sock = socket.socket(family=family, type=kind, proto=protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 30),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 30_000),  # milliseconds that sent data may go unheard
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock
