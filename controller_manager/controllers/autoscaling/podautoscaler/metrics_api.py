"""Sends requests to one metrics API, and converts its answers."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from http import HTTPStatus
from typing import Final, TypeVar

from controller_manager.api.meta import APIStruct, InvalidPathSegment, segment
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import (
    APIError,
    NotFound,
    ProtocolError,
    TransportError,
)
from controller_manager.clock import Clock

from .pods import ComputationError

DecodedT = TypeVar("DecodedT")

TIMEOUT: Final = 30.0
"""Seconds that an answer may take, with all the retries that the server asks for."""

SLOW: Final = 1.0
"""Seconds after which an API that uses all its slots counts as stuck."""


class APIStuck(Exception):
    """All slots of a metrics API are taken by requests that it does not answer."""

    def __init__(self, group: str) -> None:
        super().__init__(f"{group} does not answer the requests that it has")


_HELD: ContextVar[frozenset[str]] = ContextVar("held slots", default=frozenset())
"""The groups of the APIs of which the sync that runs has a slot."""


class MetricsAPI:
    """Reads from one metrics API, with a limited number of requests at a time.

    An API is stuck while every slot has been taken for more than a second. A sync that
    needs it then gets `APIStuck`, and its key is requeued. Once a request to the API
    has timed out, other requests fail at once with the message of a timeout, until the
    API answers again. So the status of each autoscaler that needs the API says so.
    """

    def __init__(self, client: Client, clock: Clock, group: str, slots: int) -> None:
        self.group = group
        self._client = client
        self._clock = clock
        self._slots = slots
        self._semaphore = asyncio.Semaphore(slots)
        self._in_flight: deque[float] = deque()
        self._timed_out = False

    @property
    def is_busy(self) -> bool:
        """True while the API is stuck and no request has timed out yet."""
        return self._is_stuck and not self._timed_out

    @property
    def _is_stuck(self) -> bool:
        return (
            len(self._in_flight) >= self._slots
            and self._clock.monotonic() - self._in_flight[0] > SLOW
        )

    async def read(
        self,
        segments: Iterable[str],
        object_type: type[DecodedT],
        subject: str,
        **query: str,
    ) -> DecodedT:
        """Return the answer for the path that the segments make below the API group.

        `subject` names the metrics, for example ``pods.metrics.k8s.io``. Raises
        ComputationError in upstream's words if there is no answer. Raises APIStuck if
        no slot is free and the API is stuck.
        """
        path = self._path(segments)
        given = tuple((name, value) for name, value in query.items() if value)
        if self._is_stuck and self._timed_out:
            raise ComputationError(_no_answer(subject))
        async with self.slot():
            try:
                with self._sent():
                    async with asyncio.timeout(TIMEOUT):
                        answer = await self._client.read(path, object_type, given)
            except TimeoutError:
                self._timed_out = True
                raise ComputationError(_no_answer(subject)) from None
            except APIError as error:
                self._timed_out = False
                raise ComputationError(describe(error, subject)) from error
            except (TransportError, ProtocolError) as error:
                self._timed_out = False
                raise ComputationError(str(error)) from error
        self._timed_out = False
        return answer

    def _path(self, segments: Iterable[str]) -> str:
        try:
            checked = [segment(each, "resource") for each in segments]
        except InvalidPathSegment as error:
            raise ComputationError(str(error)) from error
        return "/".join((f"/apis/{self.group}", *checked))

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Keep a slot while entered; a `read` meanwhile takes no second slot.

        Raises APIStuck if no slot is free within a second.
        """
        if self.group in _HELD.get() or (self._is_stuck and self._timed_out):
            yield
            return
        try:
            async with asyncio.timeout(SLOW):
                await self._semaphore.acquire()
        except TimeoutError:
            raise APIStuck(self.group) from None
        held = _HELD.set(_HELD.get() | {self.group})
        try:
            yield
        finally:
            _HELD.reset(held)
            self._semaphore.release()

    @contextmanager
    def _sent(self) -> Iterator[None]:
        """Note the time at which a request was sent, until it is answered."""
        began = self._clock.monotonic()
        self._in_flight.append(began)
        try:
            yield
        finally:
            self._in_flight.remove(began)


def describe(error: APIError, subject: str) -> str:
    """Return the message of an error in client-go's words."""
    # An answer that is not a Status, for example the plain text of a proxy, gets a
    # general message by its code (NewGenericServerResponse of apimachinery).
    if error.status.reason or error.status.status:
        return str(error)
    return _generic(error.code, str(error), subject)


def _no_answer(subject: str) -> str:
    return _generic(HTTPStatus.GATEWAY_TIMEOUT, "", subject)


_IN_WORDS: Final[dict[int, str]] = {
    HTTPStatus.NOT_FOUND: "the server could not find the requested resource",
    HTTPStatus.UNAUTHORIZED: (
        "the server has asked for the client to provide credentials"
    ),
    HTTPStatus.TOO_MANY_REQUESTS: (
        "the server has received too many requests and has asked us to try again later"
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        "the server is currently unable to handle the request"
    ),
    HTTPStatus.GATEWAY_TIMEOUT: (
        "the server was unable to return a response in the time allotted, but may "
        "still be processing the request"
    ),
}


def _generic(code: int, text: str, subject: str) -> str:
    if code == HTTPStatus.FORBIDDEN:
        return text
    if (what := _IN_WORDS.get(code)) is not None:
        return f"{what} (get {subject})"
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        quoted = text.replace('"', '\\"')
        what = (
            f'an error on the server ("{quoted}") has prevented the request from '
            "succeeding"
        )
    else:
        what = (
            f"the server responded with the status code {code} but did not return "
            "more information"
        )
    return f"{what} (get {subject})"


class _GroupVersion(APIStruct, frozen=True):
    version: str = ""


class _Group(APIStruct, frozen=True):
    versions: tuple[_GroupVersion, ...] | None = None
    preferred_version: _GroupVersion = _GroupVersion()


class ServedVersion:
    """Finds a version of an API group that this client knows."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        group: str,
        known: tuple[str, ...],
        max_age: float,
    ) -> None:
        """Take the versions that are known; one is used for `max_age` seconds."""
        self._client = client
        self._clock = clock
        self._group = group
        self._known = known
        self._max_age = max_age
        self._lock = asyncio.Lock()
        self._version = ""
        self._until = 0.0

    async def get(self) -> str:
        """Return the preferred version if it is known, else the first known one.

        Raises ComputationError if the group is not served, or no known version of it.
        Callers that ask at the same time share a request.
        """
        async with self._lock:
            now = self._clock.monotonic()
            if not self._version or now >= self._until:
                self._version = ""
                self._version = await self._find()
                self._until = now + self._max_age
            return self._version

    async def _find(self) -> str:
        try:
            group = await self._client.read(f"/apis/{self._group}", _Group)
        except NotFound as error:
            msg = f"no custom metrics API ({self._group}) registered"
            raise ComputationError(msg) from error
        except (APIError, ProtocolError, TransportError) as error:
            raise ComputationError(str(error)) from error
        served = (group.preferred_version, *(group.versions or ()))
        for each in served:
            if each.version in self._known:
                return each.version
        msg = "no known available metric versions found"
        raise ComputationError(msg)
