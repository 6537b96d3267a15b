"""Programs on this machine that stand for containers of pods, and the proxy to them.

The annotation ``devcluster/forward`` of a pod or a service names the address of such a
program. Port-forward, the proxies of pods and services, webhooks and aggregated API
servers connect to it.
"""

import ipaddress
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from typing import Any, Final

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response

from .inmemory import StreamingResponse
from .scheme.statuses import Refusal
from .storage import Storage

# The annotation

Address = tuple[str, int]

ANNOTATION: Final = "devcluster/forward"
HOW: Final = (
    f"run the program on this machine, and set the annotation {ANNOTATION} of the pod, "
    "or of its service, to its address, such as 127.0.0.1:8080"
)
"""What a user does to connect to a port."""

_EXPECTED: Final = (
    'an address of this machine, such as "127.0.0.1:8080", or several by port, such as '
    '"80=127.0.0.1:8080,metrics=127.0.0.1:9090"'
)
_LONGEST: Final = 100
_MOST_PORT: Final = 65535


class ForwardError(Exception):
    """An annotation cannot be understood; the message names it."""


def forward_of(obj: JSON, ports: Iterable[str]) -> Address | None:
    """Return the address that an object's annotation has for a port.

    `ports` are the number and the name of the port. An address without a port is for
    all. Raises ForwardError.
    """
    text = (obj["metadata"].get("annotations") or {}).get(ANNOTATION)
    if text is None:
        return None
    found = dict(_entries(str(text)))
    return next((found[each] for each in (*ports, "") if each in found), None)


def pod_forward(storage: Storage, pod: JSON, port: int) -> Address | None:
    """Return the address for a port of a pod, by its annotation or that of a service.

    Returns `None` if no annotation names one. Raises ForwardError.
    """
    names = [
        str(each.get("name", ""))
        for container in pod["spec"]["containers"]
        for each in container.get("ports") or ()
        if each["containerPort"] == port
    ]
    if found := forward_of(pod, (str(port), *filter(None, names))):
        return found
    for stored in storage.collection("services"):
        service = stored.obj
        if _selects(service, pod):
            for each in service["spec"].get("ports") or ():
                if each.get("targetPort", each["port"]) in (port, *names) and (
                    found := forward_of(service, _keys(each))
                ):
                    return found
    return None


def has_forward(storage: Storage, pod: JSON) -> bool:
    """Tell whether a pod, or a service that selects it, has the annotation."""
    objects = [pod]
    objects += [
        each.obj for each in storage.collection("services") if _selects(each.obj, pod)
    ]
    return any(
        ANNOTATION in (each["metadata"].get("annotations") or ()) for each in objects
    )


def service_forward(storage: Storage, service: JSON, port: str) -> Address | None:
    """Return the address for a port of a service, by its annotation or that of a pod.

    `port` is a number, a name, or empty for the first port. Returns `None` if no
    annotation names one. Raises ForwardError.
    """
    ports = service["spec"].get("ports") or ()
    known = next((each for each in ports if port in ("", *_keys(each))), None)
    if known is None:
        return None
    if found := forward_of(service, _keys(known)):
        return found
    for stored in storage.collection("pods"):
        if _selects(service, stored.obj):
            target = str(known.get("targetPort", known["port"]))
            if found := forward_of(stored.obj, (target,)):
                return found
    return None


def _keys(port: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the number of a service's port, and its name if it has one."""
    return tuple(filter(None, (str(port["port"]), port.get("name", ""))))


def _selects(service: JSON, pod: JSON) -> bool:
    selector, metadata = service["spec"].get("selector"), pod["metadata"]
    if not selector or metadata["namespace"] != service["metadata"]["namespace"]:
        return False
    return bool(selector.items() <= (metadata.get("labels") or {}).items())


def _entries(text: str) -> Iterator[tuple[str, Address]]:
    for entry in text.split(","):
        port, _, address = entry.strip().rpartition("=")
        host, colon, number = address.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        is_port = number.isascii() and number.isdigit() and len(number) <= len("65535")
        if not (colon and is_port and 0 < int(number) <= _MOST_PORT):
            raise _wrong(text, _EXPECTED)
        if not _is_loopback(host):
            raise _wrong(text, f"{_EXPECTED}; only loopback addresses are allowed")
        yield port.strip(), (host, int(number))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _wrong(text: str, expected: str) -> ForwardError:
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return ForwardError(f"annotation {ANNOTATION}: must be {expected}, it is {shown!r}")


# The proxy (apimachinery/pkg/util/proxy)

_NOT_PASSED: Final = frozenset(
    (
        "authorization",
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
"""Headers of one connection, and the credentials for the API server."""

_ADDED: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that aiohttp adds. A client that sends none wants another answer."""

_AT_ONCE: Final = 64 * 1024


async def proxied(
    request: Request,
    target: URL,
    context: ssl.SSLContext,
    *,
    headers: Iterable[tuple[str, str]] = (),
    prefix: str = "",
    server_name: str | None = None,
) -> Response | StreamingResponse:
    """Return the answer of a program to a request; `target` has the path.

    `context` decides on certificates, which are for `server_name`. `headers` are sent
    besides those of the request. Redirects get `prefix`, the path of the proxy. Raises
    Refusal 503 if the program does not answer.
    """
    sent = CIMultiDict(_passed(request.headers))
    sent.extend([("x-forwarded-uri", request.path), *headers])
    session = _new_session(context)
    try:
        answer = await session.request(
            request.method,
            target,
            data=request.body,
            headers=sent,
            allow_redirects=False,
            server_hostname=server_name,
        )
    except (aiohttp.ClientError, OSError) as error:
        await session.close()
        raise unreachable(transport_text(error)) from None
    except BaseException:
        await session.close()
        raise
    found = _passed(answer.headers)
    if found.get("location", "").startswith("/"):
        found["location"] = prefix + found["location"]
    if request.method == "HEAD":
        await session.close()
        return Response(answer.status, found)
    pieces = _pieces(session, answer)
    return StreamingResponse(pieces, found, answer.status, session.close)


async def _pieces(
    session: aiohttp.ClientSession, answer: aiohttp.ClientResponse
) -> AsyncGenerator[bytes, None]:
    """Yield the body of a program's answer, then end the connection to it."""
    async with session, answer:
        async for chunk in answer.content.iter_chunked(_AT_ONCE):
            yield chunk


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    lower = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in lower.items() if name not in _NOT_PASSED}


def _new_session(context: ssl.SSLContext) -> aiohttp.ClientSession:
    """Return a session for one request, which changes nothing in its answer."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        skip_auto_headers=_ADDED,
        trust_env=False,
    )


def unreachable(why: str) -> Refusal:
    """Return the refusal of a request whose program cannot be reached."""
    return Refusal(503, "ServiceUnavailable", f"error trying to reach service: {why}")


def unverified() -> ssl.SSLContext:
    """Return TLS settings that trust any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


# The reasons for missing answers, as messages of Go's net/http

_UNKNOWN_AUTHORITY: Final = frozenset((2, 18, 19, 20, 21))
"""Errors of OpenSSL about a chain that ends without a trusted certificate."""

_EXPIRED: Final = frozenset((9, 10))
_OTHER_NAME: Final = frozenset((62, 64))
_PLAIN_HTTP: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")


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
