"""The HTTP transport: one aiohttp session, tuned for many small requests.

It has no cookies and does not read the environment for each request. A call of
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
"""Seconds for which resolved addresses are cached: a DNS look-up opens files."""

_READ_BUFFER = 1 << 20


class HTTPTransport:
    """Sends requests to the server that `credentials` name.

    After a 401 the credentials read their files and run their plugins again; if they
    have changed, the request is sent once more.
    """

    def __init__(
        self,
        credentials: Credentials,
        user_agent: str,
        reserve: FileReserve | None = None,
    ) -> None:
        """Take the server and the identity; call this in a running event loop.

        With a `reserve`, the transport can connect when the process has no free file
        descriptor. The transport owns the reserve and closes it.
        """
        self._credentials = credentials
        self._reserve = reserve or FileReserve(0)
        self._base = credentials.server.rstrip("/")
        self._host = urlsplit(self._base).netloc
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # each watch has a connection; clients limit the others
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
        return self._reserve.open(lambda: _keepalive_socket(address))

    async def request(self, request: Request) -> Response:
        """Send and read the whole answer within the request's timeout."""
        self._reserve.refill()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT)
        try:
            # One deadline covers everything: plugins, the retry, the answer.
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
        """Send; return as soon as the status and the headers have arrived."""
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_TIMEOUT, sock_read=request.timeout
        )
        try:
            # No other limit detects a proxy that hangs.
            async with asyncio.timeout(request.timeout):
                answer = await self._send(request, timeout)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _transport_error(request, self._host, error) from error
        return _HTTPStream(answer, request, self._host)

    async def _send(
        self, request: Request, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        try:
            identity = await self._credentials.identity()
            answer = await self._send_as(identity, request, limits)
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
        return await self._send_as(identity, request, limits)

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
