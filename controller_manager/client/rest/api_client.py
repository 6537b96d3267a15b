"""The ApiClient of kubernetes_asyncio, whose requests a client of ours sends.

So existing code runs with the identity, the limits, the fence, the connections and the
metrics of a controller. Import this module only when it is used: kubernetes_asyncio
has a class for each type of the API, which cost 40 MB and half a second.
"""

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from aiohttp import ClientTimeout
from kubernetes_asyncio.client import ApiClient, ApiException, Configuration
from kubernetes_asyncio.client.exceptions import ApiValueError
from kubernetes_asyncio.client.rest import RESTClientObject, RESTResponse

from controller_manager.api.json_objects import Decoder
from controller_manager.api.meta import (
    InvalidPathSegment,
    PartialObject,
    Resource,
    segment,
)
from controller_manager.version import USER_AGENT

from .api_answer import Answer, CallTimeout, Endings
from .client import WriteHook
from .errors import InvalidName, RequestTimeout, is_success
from .request import LIST_TIMEOUT, RESTClient, refusal_of
from .serializer import APPLY_PATCH
from .transport import LARGEST_LIST, READS, Query, Request, Response

_Parameters = Mapping[str, object] | Iterable[tuple[str, object]]

_URL: Final = "https://controller"
"""The server of all URLs. Requests go to the server of the client."""

_SILENCE: Final = 3600.0
"""Seconds without data after which a stream ends that names no timeout.

A server ends a watch after an hour at most by default, and a watch without bookmarks
may bring nothing for as long.
"""

_LEEWAY: Final = 30.0
"""Seconds for which a stream may be open longer than its ``timeoutSeconds``."""

_NOT_OURS: Final = frozenset(("accept-encoding", "user-agent"))
"""Headers that the transport sets itself."""

_IDENTITY: Final = re.compile("authorization|cookie|impersonate-.*")
"""Headers that would change the identity."""

_PATH: Final = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)"
    r"(?:/namespaces/[^/]*(?=/)(?!/(?:status|finalize)?$))?"
    r"/(?P<plural>[^/]+)(?P<rest>(?:/.*)?)"
)
"""The path of a resource: ``rest`` has the name and the subresource."""

_STORING: Final = frozenset(("POST", "PUT", "PATCH"))
"""The methods whose answer is an object as it was stored."""

_STREAMING: Final = frozenset(("watch", "follow"))
"""The parameters of requests whose answers do not end by themselves."""

_stored_decoder: Final = Decoder(PartialObject)


class ClientOfController(ApiClient):
    """An ApiClient that sends as a client of ours; to close it is not necessary.

    A refusal raises ApiException, whose cause is the `APIError`. Without an answer the
    errors are those of the client: `NotLeading`, another `TransportError`, and for a
    request that took too long `CallTimeout`, which is a TimeoutError as well.
    """

    def __init__(self, rest: RESTClient, on_write: WriteHook) -> None:
        """Call this in the event loop of the client."""
        # Not the constructor of ApiClient: it opens an aiohttp session.
        self.configuration = Configuration(host=_URL)
        self.pool_threads = 1
        self.rest_client = _Sender(rest, on_write)
        self.default_headers = {"User-Agent": USER_AGENT}
        self.cookie = ""
        self.client_side_validation = self.configuration.client_side_validation


class _Sender(RESTClientObject):
    """Sends the requests of an ApiClient; GET, POST and so on are inherited."""

    def __init__(self, rest: RESTClient, on_write: WriteHook) -> None:
        # Not the constructor of RESTClientObject: it opens an aiohttp session.
        self._rest = rest
        self._on_write = on_write
        self._endings = Endings()

    async def close(self) -> None:
        """Do nothing: the connections are those of the client."""

    async def request(
        self,
        method: str,
        url: str,
        query_params: _Parameters | None = None,
        headers: Mapping[str, str] | None = None,
        body: object = None,
        post_params: object = None,
        _preload_content: bool = True,  # noqa: FBT001, FBT002
        _request_timeout: object = None,
    ) -> RESTResponse | Answer:
        """Send a request; see `RESTClientObject.request`.

        Without `_preload_content` the answer may be a refusal, and a watch or a log
        that is followed is read as it arrives. `_request_timeout` then limits each wait
        for data.
        """
        path, query = _target(url, query_params)
        whole, wait = _limits(_request_timeout)
        request = Request(
            method.upper(),
            path,
            query,
            _headers(headers or {}),
            _encoded(headers or {}, body, post_params),
            largest_answer=LARGEST_LIST,
        )
        try:
            if not _preload_content and _is_stream(request):
                return await self._streamed(request, wait)
            is_read = request.method in READS
            usual = LIST_TIMEOUT if is_read else self._rest.write_timeout
            timed = replace(request, timeout=whole or usual)
            answer = await self._rest.call(timed, checks=False)
        except RequestTimeout as error:
            raise CallTimeout(str(error)) from error
        self._record(request, answer)
        shown = Answer(answer, self._endings)
        if not _preload_content:
            return shown
        loaded = RESTResponse(cast("Any", shown), answer.body)
        if not is_success(answer.status):
            raise ApiException(http_resp=cast("Any", loaded)) from refusal_of(answer)
        return loaded

    async def _streamed(self, request: Request, wait: float) -> Answer:
        timed = replace(request, timeout=wait or _patience(request.query))
        try:
            async with asyncio.timeout(LIST_TIMEOUT):
                stream = await self._rest.streamed(timed)
        except TimeoutError:
            msg = (
                f"{request.method} {request.path}: no answer within {LIST_TIMEOUT:g} s"
            )
            raise CallTimeout(msg) from None
        return Answer(stream, self._endings)

    def _record(self, request: Request, answer: Response) -> None:
        found = _PATH.fullmatch(request.path)
        if (
            found is None
            or request.method not in _STORING
            or not is_success(answer.status)
            or found["rest"].endswith("/scale")
            or "dryRun" in dict(request.query)
        ):
            return
        try:
            stored = _stored_decoder.decode(answer.body)
        except msgspec.DecodeError:
            return  # the answer of a subresource that is no object
        if stored.metadata.resource_version:
            group, version, plural = (
                found["group"] or "",
                found["version"],
                found["plural"],
            )
            self._on_write(Resource(group, version, plural, "", PartialObject), stored)


def _target(url: str, more: _Parameters | None) -> tuple[str, Query]:
    """Return the path, unquoted, and the query.

    Raises ApiValueError for another server, and InvalidName for a path that is not that
    of the object which the caller means: an empty name would turn the path of an object
    into that of all of them.
    """
    parts = urlsplit(url)
    path = parts.path
    if f"{parts.scheme}://{parts.netloc}" != _URL:
        msg = f"{url}: requests of a controller's ApiClient go to its own API server"
        raise ApiValueError(msg)
    found = _PATH.fullmatch(path)
    if found is not None and "/proxy/" not in path:
        for each in path[1:].split("/"):
            _check_segment(unquote(each), path)
    pairs = more.items() if isinstance(more, Mapping) else more or ()
    own = [(str(name), _text(value)) for name, value in pairs]
    return unquote(path), (*parse_qsl(parts.query, keep_blank_values=True), *own)


def _check_segment(text: str, path: str) -> None:
    if not text:
        msg = f"{path}: the name or the namespace of an object may not be empty"
        raise InvalidName(msg)
    try:
        segment(text, "name")
    except InvalidPathSegment as error:
        raise InvalidName(str(error)) from error


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _headers(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers by lower-case name, without those of the transport.

    Raises ApiValueError for one that would change the identity.
    """
    own = {"content-type": "application/json"}
    own |= {name.lower(): str(value) for name, value in given.items()}
    for name in own:
        if _IDENTITY.fullmatch(name):
            msg = f"{name}: a controller's ApiClient has the identity of the controller"
            raise ApiValueError(msg)
    return {name: value for name, value in own.items() if name not in _NOT_OURS}


def _encoded(given: Mapping[str, str], body: object, form: object) -> bytes | None:
    """As kubernetes_asyncio writes them."""
    media_type = _headers(given)["content-type"].lower()
    if form:
        msg = f"{media_type}: a controller's ApiClient sends no forms"
        raise ApiValueError(msg)
    if body is None or isinstance(body, bytes):
        return body
    if "json" in media_type or media_type == APPLY_PATCH:
        return json.dumps(body).encode()
    msg = f"{media_type}: give the body as bytes"
    raise ApiValueError(msg)


def _is_stream(request: Request) -> bool:
    asked = {value.lower() for name, value in request.query if name in _STREAMING}
    return request.method == "GET" and bool(asked & {"1", "true"})


def _patience(query: Query) -> float:
    seconds = dict(query).get("timeoutSeconds", "")
    return float(seconds) + _LEEWAY if seconds.isdecimal() else _SILENCE


def _limits(given: object) -> tuple[float, float]:
    """Return the seconds of ``_request_timeout``: for all, and for a wait for data.

    0 means that none are given.
    """
    if isinstance(given, ClientTimeout):
        connect, read = given.sock_connect or given.connect, given.sock_read
        whole, wait = _limits((connect, read))
        return given.total or whole, wait or given.total or 0.0
    if isinstance(given, tuple):
        connect, read = given
        return ((connect or 0.0) + read, read) if read else (0.0, 0.0)
    return (
        (float(given), float(given)) if isinstance(given, int | float) else (0.0, 0.0)
    )
