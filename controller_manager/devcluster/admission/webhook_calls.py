"""Asks webhooks over HTTPS (pkg/util/webhook/client.go)."""

import asyncio
import base64
import binascii
import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec import Struct
from yarl import URL

from controller_manager.api.json_objects import JSON
from controller_manager.client.identity.tls import pem_only
from controller_manager.devcluster.server.apimachinery.statuses import (
    Refusal,
    bad_request,
)
from controller_manager.devcluster.server.storage.storage import Storage

# The addresses behind a service that a webhook's configuration names.

Address = tuple[str, int]

_SERVICE_LABEL = "kubernetes.io/service-name"


class UnresolvedError(Exception):
    """A service has no address; the message is upstream's."""


def addresses_of(
    storage: Storage, namespace: str, name: str, port: int
) -> list[Address]:
    """Return the addresses and ports of a service's pods for one of its ports.

    Raises UnresolvedError.
    """
    stored = storage.collection("services").get((namespace, name))
    if stored is None:
        raise UnresolvedError(f'service "{name}" not found')
    spec = stored.obj.get("spec", {})
    if spec.get("type") == "ExternalName":
        return [(str(spec.get("externalName", "")), port)]
    known = next((each for each in spec.get("ports", ()) if each["port"] == port), None)
    if known is None:
        raise UnresolvedError(f'no service port {port} found for service "{name}"')
    wanted = known.get("name", "")
    found = [*_of_endpoints(storage, (namespace, name), wanted)]
    found += _of_slices(storage, (namespace, name), wanted)
    if not found:
        raise UnresolvedError(f'no endpoints available for service "{name}"')
    return sorted(set(found))


def _of_endpoints(
    storage: Storage, key: tuple[str, str], port: str
) -> Iterator[Address]:
    stored = storage.collection("endpoints").get(key)
    for subset in stored.obj.get("subsets") or () if stored else ():
        for each in subset.get("ports") or ():
            if each.get("name", "") == port:
                for address in subset.get("addresses") or ():
                    yield address["ip"], each["port"]


def _of_slices(storage: Storage, key: tuple[str, str], port: str) -> Iterator[Address]:
    namespace, name = key
    for stored in storage.collection("endpointslices.discovery.k8s.io"):
        metadata = stored.obj["metadata"]
        labels = metadata.get("labels", {})
        if metadata["namespace"] != namespace or labels.get(_SERVICE_LABEL) != name:
            continue
        for each in stored.obj.get("ports") or ():
            if (each.get("name") or "") == port and each.get("port"):
                for endpoint in stored.obj.get("endpoints") or ():
                    if (endpoint.get("conditions") or {}).get("ready") is not False:
                        for address in endpoint["addresses"]:
                            yield address, each["port"]


# The reasons of failed calls, as messages of Go's net/http and of client-go.

_UNKNOWN_AUTHORITY: Final = frozenset((2, 18, 19, 20, 21))
"""Errors of OpenSSL about a chain that ends without a trusted certificate."""

_EXPIRED: Final = frozenset((9, 10))
_OTHER_NAME: Final = frozenset((62, 64))
_PLAIN_HTTP: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")
_TEXTS: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    403: "the server does not allow access to the requested resource",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client "
    "supports",
    409: "the server reported a conflict",
    413: "the server responded with the status code 413 but did not return more "
    "information",
    415: "the server was unable to understand the content type of the request",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again "
    "later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may "
    "still be processing the request",
}
_MOST_SHOWN: Final = 2048


def status_text(code: int, body: bytes) -> str:
    """Return the message of an answer without a Status (NewGenericServerResponse)."""
    if code == 500:
        text = body[:_MOST_SHOWN].decode("utf-8", "replace").strip() or "unknown"
        shown = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return (
            f'an error on the server ("{shown}") has prevented the request from '
            "succeeding"
        )
    default = (
        f"the server responded with the status code {code} but did not return more "
        "information"
    )
    return _TEXTS.get(code, default)


def transport_text(error: Exception) -> str:
    """Return the reason for a missing answer."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return _certificate_text(error.certificate_error, error.host)
        case aiohttp.ClientConnectorDNSError():
            return f"dial tcp: lookup {error.host}: no such host"
        case aiohttp.ClientSSLError():
            return _tls_text(error)
        case aiohttp.ClientConnectorError():
            where = f"{error.host}:{error.port}"
            return f"dial tcp {where}: connect: {_reason(error.os_error)}"
        case aiohttp.TooManyRedirects():
            return "stopped after 10 redirects"
        case aiohttp.ServerDisconnectedError():
            return "EOF"
        case aiohttp.ClientPayloadError():
            return "unexpected EOF"
        case aiohttp.ClientOSError() | OSError():
            return f"read tcp: {_reason(error)}"
    return str(error) or type(error).__name__


def _tls_text(error: aiohttp.ClientSSLError) -> str:
    reason = getattr(error.os_error, "reason", "") or ""
    if reason in _PLAIN_HTTP:
        return "http: server gave HTTP response to HTTPS client"
    return f"tls: {reason.lower().replace('_', ' ') or error.os_error}"


def _certificate_text(error: Exception, host: str) -> str:
    prefix = "tls: failed to verify certificate: x509: "
    code = getattr(error, "verify_code", 0)
    if code in _UNKNOWN_AUTHORITY:
        return f"{prefix}certificate signed by unknown authority"
    if code in _EXPIRED:
        return f"{prefix}certificate has expired or is not yet valid"
    if code in _OTHER_NAME:
        return f"{prefix}certificate is not valid for {host}"
    why = getattr(error, "verify_message", "") or str(error)
    return prefix + why


def _reason(error: OSError) -> str:
    """Return the text of an error number: the text of the error depends on the loop."""
    if isinstance(error, ssl.SSLError | socket.gaierror):
        return str(error)
    number = error.errno or 0
    return os.strerror(number).lower() if number > 0 else str(error)


# The outcome of a webhook's answer for a write (webhook/errors, dispatcher.go).

_LEAST_CODE, _MOST_CODE = 400, 599


class Failure(Struct, frozen=True):
    """The call of a webhook failed, or its answer is invalid; `why` has the reason."""

    why: str


class Answer(Struct, frozen=True):
    """A valid answer. `status` is that of a webhook that refuses the write."""

    allowed: bool
    status: JSON = {}
    patch: Any = None
    warnings: tuple[str, ...] = ()


Outcome = Failure | Answer


def internal_error(message: str) -> Refusal:
    """Return a 500 (NewInternalError)."""
    details = {"causes": [{"message": message}]}
    text = f"Internal error occurred: {message}"
    return Refusal(500, "InternalError", text, details)


def calling_failed(name: str, failure: Failure) -> Refusal:
    """Return the refusal after a failed call of a webhook with failurePolicy Fail."""
    return internal_error(f'failed calling webhook "{name}": {failure.why}')


def no_dry_run(name: str) -> Refusal:
    """Return the refusal of a dry run that a webhook does not support."""
    return bad_request(f'admission webhook "{name}" does not support dry run')


def denied(name: str, status: JSON) -> Refusal:
    """Return the refusal that a webhook wants (ToStatusErr)."""
    text = f'admission webhook "{name}" denied the request'
    reason = str(status.get("reason") or "")
    if why := status.get("message") or reason:
        text = f"{text}: {why}"
    else:
        text = f"{text} without explanation"
    code = int(status.get("code") or 0)
    if not _LEAST_CODE <= code <= _MOST_CODE:
        code = _LEAST_CODE
    return Refusal(code, reason, text, status.get("details"))


# Asks webhooks over HTTPS (pkg/util/webhook/client.go).

_MOST_BYTES: Final = 10 << 20
"""The most bytes of an answer. Upstream has no limit; an object has 3 MiB at most."""

_MOST_REDIRECTS: Final = 10
_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    "User-Agent": "kube-apiserver-admission",
}
_NO_CLIENT: Final = "could not get REST client: "
_FAILED: Final = "failed to call webhook: "


class Endpoint(Struct, frozen=True):
    """Where a webhook listens: a URL, and addresses if its host is a service."""

    url: str
    authority: str = ""
    """The trusted authorities as PEM; "" for those of the system."""

    addresses: tuple[Address, ...] = ()


def endpoint_of(
    config: Mapping[str, Any], storage: Storage, seconds: int
) -> Endpoint | Failure:
    """Return where a webhook with this ``clientConfig`` listens.

    The URL has the timeout in seconds.
    """
    query = f"?timeout={seconds}s"
    try:
        bundle = base64.b64decode(config.get("caBundle") or "")
        authority = pem_only(bundle) if bundle else ""
        context_of(authority)
    except (ValueError, binascii.Error, ssl.SSLError):
        why = "unable to load root certificates: unable to parse bytes as PEM block"
        return Failure(_NO_CLIENT + why)
    if url := config.get("url"):
        return Endpoint(f"{url}{query}", authority)
    service = config["service"]
    namespace, name = service["namespace"], service["name"]
    port, path = int(service.get("port") or 443), service.get("path") or "/"
    url = f"https://{name}.{namespace}.svc:{port}/{path.lstrip('/')}{query}"
    try:
        found = addresses_of(storage, namespace, name, port)
    except UnresolvedError as error:
        return Failure(f'{_FAILED}Post "{url}": {error}')
    return Endpoint(url, authority, tuple(found))


@lru_cache(maxsize=200)
def context_of(authority: str) -> ssl.SSLContext:
    """Return the TLS settings for certificates that an authority has signed.

    Go trusts each certificate of the bundle, also one that is no authority. Raises
    ssl.SSLError for certificates that cannot be read.
    """
    if not authority:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=authority)
    return context


async def posted(endpoint: Endpoint, body: bytes, seconds: int) -> bytes | Failure:
    """Return the body of an answer that comes within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            return await _posted(endpoint, body)
    except TimeoutError:
        why = "context deadline exceeded"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        why = transport_text(error)
    return Failure(f'{_FAILED}Post "{endpoint.url}": {why}')


async def _posted(endpoint: Endpoint, body: bytes) -> bytes | Failure:
    connector = aiohttp.TCPConnector(
        ssl=context_of(endpoint.authority),
        force_close=True,
        resolver=_Fixed(endpoint.addresses) if endpoint.addresses else None,
    )
    async with (
        aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as session,
        session.post(
            URL(endpoint.url, encoded=True),
            data=body,
            headers=_HEADERS,
            max_redirects=_MOST_REDIRECTS,
        ) as answer,
    ):
        found = await _read(answer)
        if isinstance(found, bytes) and not 200 <= answer.status <= 206:
            return Failure(_FAILED + _refusal(answer.status, found))
        return found


async def _read(answer: aiohttp.ClientResponse) -> bytes | Failure:
    """Return the whole body, unless it is too long."""
    parts = bytearray()
    async for part in answer.content.iter_any():
        parts += part
        if len(parts) > _MOST_BYTES:
            limit = f"{_MOST_BYTES} bytes"
            return Failure(f"{_FAILED}the answer is longer than {limit}")
    return bytes(parts)


def _refusal(code: int, body: bytes) -> str:
    """Return the error text of an unsuccessful answer, which may be a Status."""
    try:
        status = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return str(status.get("message") or "")
    return status_text(code, body)


class _Fixed(AbstractResolver):
    """Resolves every name to the addresses of a service."""

    def __init__(self, addresses: tuple[Address, ...]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses, each with its own port."""
        del port, family
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address, port in self._addresses
        ]

    async def close(self) -> None:
        """Do nothing: the resolver holds no resources."""
