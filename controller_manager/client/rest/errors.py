"""Exceptions for requests that failed, by reason.

An API server explains a refusal with a Status object; its reason selects the
exception class. A request without an answer raises :class:`TransportError`: if it
was a write, it may have been applied or not. A request that was never sent raises
:class:`NotSent`: it was certainly not applied.
"""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import ClassVar, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from controller_manager.api.json_objects import Decoder
from controller_manager.api.meta import Status

FailureT = TypeVar("FailureT", bound=BaseException)

NAMESPACE_TERMINATING: Final = "NamespaceTerminating"


class RequestError(Exception):
    """A request failed: it was refused, or has no answer, or none that can be read."""


class APIError(RequestError):
    """The API server refused the request, or its answer could not be read.

    >>> try:
    ...     await client.get(WEBSITES, "default", "none")
    ... except APIError as error:
    ...     print(error.code, error)
    404 websites.example.com "none" not found
    """

    reason: ClassVar[str] = ""

    def __init__(self, status: Status, retry_after: float | None = None) -> None:
        """`retry_after` is the header, in seconds."""
        super().__init__(status.message or status.reason or f"HTTP {status.code}")
        self.status = status
        self.retry_after = retry_after

    @property
    def code(self) -> int:
        """The HTTP status code."""
        return self.status.code


class BadRequest(APIError):
    """400: the request itself is malformed."""

    reason = "BadRequest"


class Unauthorized(APIError):
    """401: the credentials are missing or not accepted."""

    reason = "Unauthorized"


class Forbidden(APIError):
    """403: not allowed, by authorisation or admission (quota, for one)."""

    reason = "Forbidden"


class NotFound(APIError):
    """404: the object, or the resource, does not exist.

    >>> await client.get(WEBSITES, "default", "none")
    Traceback (most recent call last):
    NotFound: websites.example.com "none" not found
    """

    reason = "NotFound"


class AlreadyExists(APIError):
    """409: an object of that name exists.

    >>> metadata = ObjectMeta(name="shop", namespace="default")
    >>> await client.create(WEBSITES, Website(metadata=metadata))
    Traceback (most recent call last):
    AlreadyExists: websites.example.com "shop" already exists
    """

    reason = "AlreadyExists"


class Conflict(APIError):
    """409: the object changed since it was read, or a precondition failed.

    >>> patch = {"spec": {"replicas": 2}}
    >>> changed = await client.patch(WEBSITES, "default", "shop", patch)
    >>> await client.update(WEBSITES, website)
    Traceback (most recent call last):
    Conflict: Operation cannot be fulfilled on websites.example.com "shop": ...
    """

    reason = "Conflict"


class Gone(APIError):
    """410: the requested resource or version does not exist any more."""

    reason = "Gone"


class Expired(Gone):
    """410: the resource version is too old to continue from."""

    reason = "Expired"


class Invalid(APIError):
    """422: the object fails validation."""

    reason = "Invalid"


class TooManyRequests(APIError):
    """429: the client must send fewer requests."""

    reason = "TooManyRequests"


class InternalError(APIError):
    """500: the API server failed."""

    reason = "InternalError"


class ServiceUnavailable(APIError):
    """503: the API server cannot answer now."""

    reason = "ServiceUnavailable"


class Timeout(APIError):
    """504: the API server did not finish in time; a write may have been applied."""

    reason = "Timeout"


class ServerTimeout(APIError):
    """500 or 504: the API server could not even start in time."""

    reason = "ServerTimeout"


class Redirected(APIError):
    """3xx: a redirect, which this client does not follow, or another strange answer.

    API servers send none; a login page or a load balancer in front of them may.
    """


class TransportError(RequestError):
    """No answer: a write may or may not have been applied."""


class RequestTimeout(TransportError):
    """No answer in time."""


class NotSent(TransportError):
    """The request was not sent: a write was certainly not applied."""


class InvalidName(NotSent):
    """A name or namespace is empty, or not allowed in the path of a URL."""


class UntrustedServer(NotSent):
    """The configured certificate authorities did not sign the server's certificate."""


class ProtocolError(RequestError):
    """An answer that does not follow the API, such as garbage on a watch."""


_GATEWAY_GOT_NO_ANSWER: Final = (HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT)
"""Codes of a proxy whose API server closed the connection or did not answer."""

_ETCD_TIMED_OUT: Final = "etcdserver: request timed out"
"""Message of a 500 when etcd did not confirm a write in time (etcd's errors.go)."""

_OBJECT_REFUSED: Final = ("Invalid", "RequestEntityTooLarge")
"""Reasons of refusals for the sake of an object."""

_ADMISSION: Final = re.compile(
    r'admission webhook "[^"]*" denied the request'
    r"|\S+( \"[^\"]*\")? is forbidden: (Validating|Mutating)AdmissionPolicy '"
)
"""Beginnings of refusals by webhooks and policies, which choose code and reason."""

_NO_OBJECT: Final = re.compile(
    r'(\S+( "[^"]*")? is )?forbidden: ('
    r'User "(\\.|[^"\\])*" cannot |user "(\\.|[^"\\])*" \(groups='
    r"|user not permitted to |cannot set (an ownerRef|blockOwnerDeletion) "
    r"|not yet ready to handle request)"
)
"""Beginnings of other 403: authorisation, admission that asks for a right of the
client, and a server that has not read its admission objects yet.

Upstream: responsewriters/errors.go; the plugins gc, approval, signing and ctbattest;
the registry of rbac. Only beginnings count: a tenant may choose the rest.
"""

_BY_REASON: Final[dict[str, type[APIError]]] = {
    cls.reason: cls
    for cls in (
        BadRequest,
        Unauthorized,
        Forbidden,
        NotFound,
        AlreadyExists,
        Conflict,
        Gone,
        Expired,
        Invalid,
        TooManyRequests,
        InternalError,
        ServiceUnavailable,
        Timeout,
        ServerTimeout,
    )
}

_BY_CODE: Final[dict[int, type[APIError]]] = {
    HTTPStatus.BAD_REQUEST: BadRequest,
    HTTPStatus.UNAUTHORIZED: Unauthorized,
    HTTPStatus.FORBIDDEN: Forbidden,
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.CONFLICT: Conflict,
    HTTPStatus.GONE: Gone,
    HTTPStatus.UNPROCESSABLE_ENTITY: Invalid,
    HTTPStatus.TOO_MANY_REQUESTS: TooManyRequests,
    HTTPStatus.INTERNAL_SERVER_ERROR: InternalError,
    HTTPStatus.SERVICE_UNAVAILABLE: ServiceUnavailable,
    HTTPStatus.GATEWAY_TIMEOUT: Timeout,
}

_status_decoder: Final = Decoder(Status)


def error_from_status(status: Status, retry_after: float | None = None) -> APIError:
    """Return the exception for a Status: by reason, else by code."""
    cls = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code, APIError)
    if retry_after is None and status.details and status.details.retry_after_seconds:
        retry_after = float(status.details.retry_after_seconds)
    return cls(status, retry_after)


def is_success(code: int) -> bool:
    """Tell whether an HTTP status code means success (client-go: 200 to 206)."""
    return HTTPStatus.OK <= code <= HTTPStatus.PARTIAL_CONTENT


def error_from_response(
    code: int, body: bytes, retry_after: str | None, location: str | None = None
) -> APIError:
    """Return the exception for an HTTP answer, even one from a proxy.

    `location` is the header of that name: where a redirect leads.
    """
    if HTTPStatus.MULTIPLE_CHOICES <= code < HTTPStatus.BAD_REQUEST:
        return Redirected(Status(code=code, message=_redirection(code, location)))
    try:
        status = _status_decoder.decode(body)
    except msgspec.DecodeError:
        text = body[:200].decode("utf-8", "replace").strip()
        status = Status(message=text or f"the server answered HTTP {code}")
    if not status.code:
        status = msgspec.structs.replace(status, code=code)
    seconds = float(retry_after) if retry_after and retry_after.isdecimal() else None
    return error_from_status(status, seconds)


def _redirection(code: int, location: str | None) -> str:
    """Return the message for a 3xx.

    It shows only the host of the location: the rest may have a secret.
    """
    if not location:
        return f"the server answered HTTP {code}, which no API server does"
    try:
        target = urlsplit(location)
        host = target.hostname or ""
        host += f":{target.port}" if host and target.port else ""
    except ValueError:
        host = "a place that cannot be read"
    return (
        f"the server answered HTTP {code}: it redirects to {host or 'another path'}, "
        "and redirects are not followed; check the kubeconfig's server, and the "
        "proxies in front of it"
    )


def behind(error: Exception) -> Exception:
    """Return the APIError that an error of another client stands for, else `error`.

    The ApiException of a controller's ApiClient (`api_client`) has it as its cause.
    """
    if isinstance(error, (TransportError, ProtocolError)):
        return error
    return error.__cause__ if isinstance(error.__cause__, APIError) else error


def is_conflict(error: BaseException) -> bool:
    """Tell whether a retry with a newer version of the object can succeed."""
    return isinstance(error, Conflict)


def may_be_applied(error: BaseException) -> bool:
    """Tell whether a write that failed with `error` may have been stored.

    It may have been stored if the answer is missing: a timeout (of this client, the
    API server or etcd), a broken connection, an answer that cannot be read. A
    refusal, and any other failure of the API server or of a webhook, means that
    nothing was stored.
    """
    match error:
        case NotSent():
            return False
        case TransportError() | ProtocolError() | Timeout() | ServerTimeout():
            return True
        case APIError():
            return (
                error.code in _GATEWAY_GOT_NO_ANSWER
                or _ETCD_TIMED_OUT in error.status.message
            )
    return True


def is_about(error: APIError, name: str) -> bool:
    """Tell whether an error answer is about the object called `name`.

    "Not found" may also mean that the API server, or a proxy in front of it, does
    not know the path. Such an answer does not say whether the object exists.
    """
    details = error.status.details
    return details is not None and details.name == name


def is_namespace_terminating(error: BaseException) -> bool:
    """Tell whether a create failed because its namespace is being deleted."""
    if not isinstance(error, Forbidden) or error.status.details is None:
        return False
    causes = error.status.details.causes or ()
    return any(cause.reason == NAMESPACE_TERMINATING for cause in causes)


def is_refusal(error: BaseException | None) -> bool:
    """Tell whether a write was refused for the sake of its object.

    The owner of the object, or of its namespace, has to act: a quota is full, the
    object is invalid or too large, admission denies it. A right that the client lacks,
    a webhook that does not answer and an API server that starts are no refusals. If
    the error has a cause (``raise ... from``), the cause counts.
    """
    while error is not None and not isinstance(error, APIError):
        error = error.__cause__
    if error is None:
        return False
    message = error.status.message
    if _ADMISSION.match(message):
        return error.code < HTTPStatus.INTERNAL_SERVER_ERROR
    if error.status.reason == Forbidden.reason:
        return _NO_OBJECT.match(message) is None
    return error.status.reason in _OBJECT_REFUSED


def gravest(failures: Iterable[FailureT]) -> FailureT | None:
    """Return the failure that stands for several, `None` if there is none.

    It is the first that is no refusal, so a sync counts as refused only if all of its
    failures are refusals; else the first.
    """
    refused: FailureT | None = None
    for each in failures:
        if not is_refusal(each):
            return each
        refused = refused or each
    return refused
