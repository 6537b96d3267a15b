"""Serves an API server over HTTPS, with the certificates of the cluster's authority."""

import asyncio
import hashlib
import os
import ssl
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol, Self
from uuid import uuid4

from aiohttp import ClientConnectionResetError, HttpVersion11, web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver import security
from controller_manager.devcluster.apiserver.genericapiserver import GenericAPIServer
from controller_manager.devcluster.apiserver.responses import Upgrade, refused
from controller_manager.devcluster.scheme import statuses
from controller_manager.observability.logs import silent_logger
from controller_manager.serving.answers import Streamed, Whole
from controller_manager.serving.certificates import Pair, self_signed
from controller_manager.serving.connection import QuietLogger
from controller_manager.serving.server import listen

from .inmemory import StreamingResponse
from .spdy import upgraded

# The keys of a development cluster: its authority, and that of account tokens.

_NAME: Final = "devcluster"
_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_VALIDITY: Final = timedelta(days=3650)
"""As kubeadm's authority: a cluster whose state is kept may be started for years."""


class ClusterKeys(Struct, frozen=True):
    """The authority that signs certificates, and the key that signs tokens.

    The API server serves with the certificate of the authority, too.
    """

    authority: Pair
    account_key: ec.EllipticCurvePrivateKey

    @classmethod
    def generate(cls) -> Self:
        """Return new keys; the certificate is valid for ten years."""
        key = ec.generate_private_key(ec.SECP256R1())
        return cls(self_signed(_NAME, _HOSTS, validity=_VALIDITY), key)

    @classmethod
    def from_pem(cls, authority: Pair, account_key: bytes) -> Self:
        """Return stored keys; raises ValueError for an invalid key."""
        key = serialization.load_pem_private_key(account_key, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            msg = "the key of account tokens is not one on an elliptic curve"
            raise ValueError(msg)  # noqa: TRY004 - the value is wrong, not its type
        return cls(authority, key)

    def account_key_pem(self) -> bytes:
        """Return the key that signs tokens as PEM."""
        return self.account_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def write(self, directory: Path) -> dict[str, str]:
        """Write the keys; return the flags for a controller manager with their paths.

        Only the owner can read the files. Raises OSError.
        """
        flags = {
            "cluster-signing-cert-file": ("ca.crt", self.authority.certificate),
            "cluster-signing-key-file": ("ca.key", self.authority.key),
            "service-account-private-key-file": ("sa.key", self.account_key_pem()),
        }
        for name, content in flags.values():
            _write(directory / name, content)
        return {flag: str(directory / name) for flag, (name, _) in flags.items()}


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


# Client certificates that the development cluster's own authority signs.


def client_certificate(authority: Pair, name: str, *groups: str) -> Pair:
    """Return a certificate that authenticates a user for one year."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)  # noqa: S101 - our own
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    attributes += [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in groups
    ]
    now = datetime.now(UTC)
    ends_at = now + timedelta(days=365)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(attributes))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(ends_at)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .sign(issuer_key, hashes.SHA256())
    )
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        ends_at,
    )


@lru_cache(256)
def user_of(encoded: bytes) -> security.User:
    """Return the user that a certificate (DER) names."""
    subject = x509.load_der_x509_certificate(encoded).subject

    def values(oid: x509.ObjectIdentifier) -> list[str]:
        return [str(each.value) for each in subject.get_attributes_for_oid(oid)]

    name = "".join(values(NameOID.COMMON_NAME)[:1])
    groups = values(NameOID.ORGANIZATION_NAME)
    fingerprint = hashlib.sha256(encoded).hexdigest()
    extra = {security.CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)}
    return security.User(name, "", (*groups, security.AUTHENTICATED), extra)


# Serves an API server over HTTPS.

_HOST: Final = "127.0.0.1"
_KEEPALIVE: Final = 86_400.0
"""Seconds of the cluster's clock, which may be fast, that a client may stay idle."""

_MAX_BODY: Final = 3 * 1024 * 1024
"""Bytes of a request's body, as in apiserver's server/config.go."""

_MAX_HEADERS: Final = 1024 * 1024
"""Bytes of the first line, and of each header, as in Go's net/http."""

_MAX_NUMBER: Final = 1024
"""The most headers; Go's net/http has no such limit. Each group to act as is one."""

_BODY_PATIENCE: Final = 60.0
"""Seconds, outside the cluster, for which the server waits for a whole body."""

_SHUTDOWN_PATIENCE: Final = 0.25
"""Half of the seconds that requests may take when the server stops.

aiohttp waits for them, tells them, and waits again.
"""

_HEADERS: Final = {"cache-control": "no-cache, private"}

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

Answer = Response | StreamingResponse
Answering = Callable[[Request], Awaitable[Answer]]
"""A function that answers a request."""


class ConnectionCutError(Exception):
    """The client is to get no answer, and its connection is to be cut."""


class Interceptor(Protocol):
    """Stands before the server, and may change requests and answers."""

    async def __call__(self, request: Request, answer: Answering) -> Answer:
        """Answer a request, with the server's own answer or with another one.

        Raises ConnectionCutError to cut the connection.
        """


Observer = Callable[[Request, str, Answer | None], None]
"""Sees a request, the name of its user, and its answer; `None` if it was cut."""


class HTTPServer:
    """Listens on the loopback interface and passes requests to the server.

    It may be started again after it was closed, on the same port.
    """

    def __init__(
        self,
        server: GenericAPIServer,
        port: int,
        tls: ssl.SSLContext | None,
        *,
        intercept: Interceptor | None = None,
        observe: Observer | None = None,
        remedy: str = "choose another --port",
    ) -> None:
        """Take the server, the port (0 for any), and the TLS settings, if any.

        `intercept` sees every request first, `observe` each answer. `remedy` ends the
        message about a port that cannot be used.
        """
        self._server = server
        self.host: Final = _HOST
        self.port = port
        self._tls = tls
        self._intercept = intercept
        self._observe = observe
        self._remedy = remedy
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        """The URL of the server."""
        scheme = "https" if self._tls else "http"
        return f"{scheme}://{self.host}:{self.port}"

    async def start(self) -> None:
        """Listen; raises ServingError if the port cannot be used."""
        served = web.Server(
            self._handle,  # no router: the API server knows its paths
            access_log=None,
            handler_cancellation=True,
            keepalive_timeout=_KEEPALIVE,
            logger=QuietLogger(silent_logger()),  # of requests that are no HTTP
            auto_decompress=False,  # a body is what the client has sent
            max_line_size=_MAX_HEADERS,
            max_field_size=_MAX_HEADERS,
            max_headers=_MAX_NUMBER,
        )
        runner = web.ServerRunner(served, shutdown_timeout=_SHUTDOWN_PATIENCE)
        self.port = await listen(runner, self.host, self.port, self._remedy, self._tls)
        self._runner = runner
        self._server.address = f"{self.host}:{self.port}"

    async def close(self) -> None:
        """Stop listening and cut all streams."""
        runner, connections = self._runner, self._connections()
        self._runner = None
        if runner is None:
            return
        await runner.cleanup()
        # A transport that was closed still waits for the client's end of TLS.
        for connection in connections:
            connection.abort()

    def cut_connections(self) -> None:
        """Cut all connections, also those of watches, and go on listening."""
        for connection in self._connections():
            connection.abort()

    def _connections(self) -> list[asyncio.Transport]:
        server = self._runner.server if self._runner else None
        handlers = server.connections if server else ()
        return [each.transport for each in handlers if each.transport is not None]

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request.

        aiohttp adds the date of this machine. The clock of the cluster may be ahead of
        it, and a client never asks again for an answer whose date is in its future.
        """
        audit_id = request.headers.get("Audit-ID") or str(uuid4())
        headers = {**_HEADERS, "audit-id": audit_id}
        plain = Request(
            request.method,
            request.path,
            query=tuple(request.query.items()) if request.query_string else (),
            headers=_headers_of(request),
        )
        if "expect" in plain.headers:
            await _expected(request, plain.headers["expect"])
        user = _user_of(request)
        if request.can_read_body:
            limit = self._server.body_limit(plain, user) or _MAX_BODY
            try:
                plain = replace(plain, body=await _body_of(request, limit))
            except statuses.Refusal as refusal:
                headers["connection"] = "close"
                return _whole(refused(refusal), headers)
        try:
            return await self._answer(request, plain, user, headers)
        except ConnectionCutError:
            if request.transport is not None:
                request.transport.abort()
            raise
        except Exception as error:
            context = {"message": "A request could not be answered", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            raise

    async def _answer(
        self,
        request: web.BaseRequest,
        plain: Request,
        user: security.User | None,
        headers: dict[str, str],
    ) -> web.StreamResponse:
        async def answering(passed: Request) -> Answer:
            return await self._server.handle_as(user, passed)

        try:
            answer = await (
                answering(plain)
                if self._intercept is None
                else self._intercept(plain, answering)
            )
        except ConnectionCutError:
            self._observed(plain, user, None)
            raise
        self._observed(plain, user, answer)
        self._server.metrics.count(plain, answer.status)
        if isinstance(answer, Upgrade):
            return await upgraded(request, answer, headers)
        if not isinstance(answer, Response):
            return await _stream(request, answer, headers)
        whole = _whole(answer, headers)
        await whole.prepare(request)  # it refuses headers that have several lines
        return whole

    def _observed(
        self, request: Request, user: security.User | None, answer: Answer | None
    ) -> None:
        if self._observe is not None:
            self._observe(request, self._server.name_of_user(user, request), answer)


async def _stream(
    request: web.BaseRequest, answer: StreamingResponse, headers: dict[str, str]
) -> web.StreamResponse:
    response = Streamed(status=answer.status, headers={**headers, **answer.headers})
    try:
        await response.prepare(request)
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                await response.write(chunk)
    except ClientConnectionResetError:
        pass  # the client has closed the connection
    finally:
        await answer.close()
    return response


async def _body_of(request: web.BaseRequest, limit: int) -> bytes:
    """Return the body of a request, which may have `limit` bytes.

    Raises Refusal for a body that is too large, or that does not come to its end.
    """
    if (request.content_length or 0) > limit:
        raise statuses.too_large_body(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_PATIENCE):
            while piece := await request.content.readany():
                body += piece
                if len(body) > limit:
                    raise statuses.too_large_body(limit)
    except TimeoutError:
        raise statuses.slow_request() from None
    return bytes(body)


def _headers_of(request: web.BaseRequest) -> dict[str, str]:
    """Return the headers by lower-case name; those of one name are joined by lines."""
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        key = name.lower()
        headers[key] = f"{headers[key]}\n{value}" if key in headers else value
    return headers


async def _expected(request: web.BaseRequest, expectation: str) -> None:
    """Let a client send its body that waits for the server; raises HTTPException."""
    if request.version != HttpVersion11:
        return
    if expectation.lower() != "100-continue":
        raise web.HTTPExpectationFailed(text=f"Unknown Expect: {expectation}")
    await request.writer.write(_CONTINUE)
    request.writer.output_size = 0  # the answer comes later


def _whole(answer: Response, headers: dict[str, str]) -> Whole:
    headers = {**headers, **answer.headers}
    return Whole(status=answer.status, headers=headers, body=answer.body)


def _user_of(request: web.BaseRequest) -> security.User | None:
    connection = request.get_extra_info("ssl_object")
    encoded = connection.getpeercert(binary_form=True) if connection else None
    return user_of(encoded) if encoded else None
