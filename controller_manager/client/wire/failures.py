"""The errors that callers see when no answer comes."""

import ssl

from controller_manager.client.errors import RequestTimeout, TransportError
from controller_manager.client.transport import Request


def no_answer(what: str, request: Request) -> RequestTimeout:
    """Return the error for a request that was not answered in time."""
    return RequestTimeout(f"{what}: no answer within {request.timeout:g} s")


def failure_of(what: str, request: Request, error: BaseException) -> TransportError:
    """Return the error for a request that was sent, at least in part."""
    if isinstance(error, TimeoutError):  # also one of the socket
        return no_answer(what, request)
    if isinstance(error, ssl.SSLError):
        return TransportError(f"{what}: no TLS connection: {error.reason or error}")
    return TransportError(f"{what}: {error or type(error).__name__}")
