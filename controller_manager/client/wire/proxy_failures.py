"""The errors of requests that got no connection from aiohttp, most through a proxy.

Not one byte of these requests was sent.
"""

import ssl
from typing import Final

import aiohttp

from controller_manager.client.errors import NotSent
from controller_manager.client.wire.closing import TransportClosed
from controller_manager.client.wire.dialing import not_connected

_LONGEST_REASON: Final = 80
"""The most characters of a reason that the proxy gives."""


def not_sent(what: str, proxy: str, error: BaseException) -> NotSent:
    """Return the error for a request, which `what` names, that got no connection.

    `proxy` is the URL of the proxy without its user, or empty.
    """
    if isinstance(error, TransportClosed):
        return NotSent(f"{what}: {error}")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return not_connected(what, error.certificate_error)
    if isinstance(error, ssl.SSLError):
        return not_connected(what, error)
    if proxy:
        what = f"{what}: the proxy {proxy}"
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return not_connected(what, TimeoutError())
    if isinstance(error, aiohttp.ClientConnectorError):
        return not_connected(what, error.os_error)
    if isinstance(error, aiohttp.ClientResponseError):
        return NotSent(f"{what} answered {error.status} {_shown(error.message)}")
    return NotSent(f"{what} gave no connection: {error or type(error).__name__}")


def _shown(reason: str) -> str:
    return reason[:_LONGEST_REASON] if reason.isprintable() else ""
