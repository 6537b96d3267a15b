"""The reasons of failed calls, as messages of Go's net/http and of client-go."""

import os
import socket
import ssl
from typing import Final

import aiohttp
from msgspec import Struct

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


class Failure(Struct, frozen=True):
    """The call of a webhook failed, or its answer is invalid; `why` has the reason."""

    why: str


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
