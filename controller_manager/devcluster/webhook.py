"""Asks webhooks over HTTPS (pkg/util/webhook/client.go)."""

import asyncio
import base64
import binascii
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec import Struct
from yarl import URL

from controller_manager.client.identity.tls import pem_only

from .proxying import Address, ForwardError, service_forward, transport_text
from .storage import Storage

# The addresses behind a service that a webhook's configuration names.

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
    try:
        forward = service_forward(storage, stored.obj, str(port))
    except ForwardError as error:
        raise UnresolvedError(str(error)) from None
    if forward:
        return [forward]
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


# The reasons of failed calls, as messages of client-go.

_TEXTS: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    403: "the server does not allow access to the requested resource",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client "
    "supports",
    409: "the server reported a conflict",
    415: "the server was unable to understand the content type of the request",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again "
    "later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may "
    "still be processing the request",
}
_MOST_SHOWN: Final = 2048


class Failure(Struct, frozen=True):
    """The call of a webhook failed, or its answer is invalid; `why` has the reason."""

    why: str


def _status_text(code: int, body: bytes) -> str:
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


# Asks webhooks over HTTPS (pkg/util/webhook/client.go).

_MOST_BYTES: Final = 10 << 20
"""The most bytes of an answer. Upstream has no limit; an object has 3 MiB at most."""

_MOST_REDIRECTS: Final = 10
NO_AUTHORITY: Final = (
    "unable to load root certificates: unable to parse bytes as PEM block"
)
"""The reason for which a ``caBundle`` cannot be used."""

_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    "User-Agent": "kube-apiserver-admission",
}


class Endpoint(Struct, frozen=True):
    """Where a webhook listens: a URL, and addresses if its host is a service."""

    url: str
    authority: str = ""
    """The trusted authorities as PEM; "" for those of the system."""

    addresses: tuple[Address, ...] = ()
    problem: str = ""
    """Why the service has no addresses; a call fails for this reason."""


def endpoint_of(
    config: Mapping[str, Any], storage: Storage, seconds: int
) -> Endpoint | Failure:
    """Return where a webhook with this ``clientConfig`` listens.

    The URL has the timeout in seconds. Returns a Failure if the ``caBundle`` cannot be
    read.
    """
    query = f"?timeout={seconds}s"
    authority = authority_of(config)
    if authority is None:
        return Failure(NO_AUTHORITY)
    if url := config.get("url"):
        return Endpoint(f"{url}{query}", authority)
    service = config["service"]
    namespace, name = service["namespace"], service["name"]
    port, path = int(service.get("port") or 443), service.get("path") or "/"
    url = f"https://{name}.{namespace}.svc:{port}/{path.lstrip('/')}{query}"
    try:
        found = addresses_of(storage, namespace, name, port)
    except UnresolvedError as error:
        return Endpoint(url, authority, problem=str(error))
    return Endpoint(url, authority, tuple(found))


def authority_of(config: Mapping[str, Any]) -> str | None:
    """Return the trusted authorities of a ``clientConfig`` as PEM, "" for none.

    Returns `None` if the ``caBundle`` cannot be read.
    """
    try:
        bundle = base64.b64decode(config.get("caBundle") or "")
        authority = pem_only(bundle) if bundle else ""
        _context_of(authority)
    except (ValueError, binascii.Error, ssl.SSLError):
        return None
    return authority


@lru_cache(maxsize=200)
def _context_of(authority: str) -> ssl.SSLContext:
    """Return the TLS settings of `new_context`, which all calls share."""
    return new_context(authority)


def new_context(authority: str) -> ssl.SSLContext:
    """Return TLS settings for certificates that an authority has signed.

    Go trusts each certificate of the bundle, also one that is no authority. Raises
    ssl.SSLError for certificates that cannot be read.
    """
    if not authority:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=authority)
    return context


Answerer = Callable[[str, bytes, float], Awaitable[bytes]]
"""Returns the answer to a body that is sent to a path, within some seconds."""

SERVED_HERE: Final[dict[str, Answerer]] = {}
"""The webhooks of this process that are called without the network, by their host."""


async def posted(endpoint: Endpoint, body: bytes, seconds: int) -> bytes | Failure:
    """Return the body of an answer that comes within so many seconds."""
    if endpoint.problem:
        return Failure(f'Post "{endpoint.url}": {endpoint.problem}')
    try:
        async with asyncio.timeout(seconds):
            url = URL(endpoint.url, encoded=True)
            if (answer := SERVED_HERE.get(url.host or "")) is not None:
                return await answer(url.path, body, seconds)
            return await _posted(endpoint, body)
    except TimeoutError:
        why = "context deadline exceeded"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        why = transport_text(error)
    return Failure(f'Post "{endpoint.url}": {why}')


async def _posted(endpoint: Endpoint, body: bytes) -> bytes | Failure:
    connector = aiohttp.TCPConnector(
        ssl=_context_of(endpoint.authority),
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
            return Failure(_refusal(answer.status, found))
        return found


async def _read(answer: aiohttp.ClientResponse) -> bytes | Failure:
    """Return the whole body, unless it is too long."""
    parts = bytearray()
    async for part in answer.content.iter_any():
        parts += part
        if len(parts) > _MOST_BYTES:
            limit = f"{_MOST_BYTES} bytes"
            return Failure(f"the answer is longer than {limit}")
    return bytes(parts)


def _refusal(code: int, body: bytes) -> str:
    try:
        status = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return str(status.get("message") or "")
    return _status_text(code, body)


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
