"""Requests within the limits of a client: their paths, and the retries that are safe.

An empty name would turn the path of an object into that of its collection: ``delete``
would delete all objects of the namespace. So there is a function for the path of each
kind of request, which raises `InvalidName` for a missing name before anything is sent.

Answers set the clock of the API server. Timestamps that the server sets, such as
creationTimestamp, must be compared with it: the clocks of two machines may differ by
minutes.

Upstream: client-go rest/request.go and rest/with_retry.go.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final, Protocol, TypeVar

from controller_manager.api.meta import AnyResource, InvalidPathSegment
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger, silent_logger
from controller_manager.options.config import WRITE_TIMEOUT

from . import errors
from .limits import ON_WAIT, PATIENCE, SYNC_KEY, RequestLimiter, Slot, Slots
from .serializer import JSON
from .transport import (
    LARGEST_ANSWER,
    READS,
    Query,
    Request,
    Response,
    Stream,
    Transport,
)

_MONTHS: Final = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)
_WORDS: Final = 6
"""The words of a Date header, with the name of the day and the time zone."""


class ServerClock:
    """A clock that follows the Date header of the server's answers, to the second.

    Before the first answer with such a header, it is the local clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._date = ""
        self._observed_at = 0.0

    def observe(self, date: str) -> None:
        """Remember the Date header of an answer; `now` parses it."""
        self._date = date
        self._observed_at = self._clock.monotonic()

    def now(self) -> datetime:
        """Return the server's time; it may be up to a second behind."""
        if self._date:
            passed = timedelta(seconds=self.monotonic() - self._observed_at)
            try:
                return parse_date(self._date) + passed
            except ValueError:
                self._date = ""  # a proxy has set an invalid date
        return self._clock.now()

    def monotonic(self) -> float:
        """Return the local monotonic time."""
        return self._clock.monotonic()


def parse_date(date: str) -> datetime:
    """Return the time of a Date header; raises ValueError.

    Go's servers write ``Sat, 28 Nov 2026 12:37:05 GMT``; other forms are rare.
    """
    words = date.split(" ")
    if len(words) == _WORDS and words[2] in _MONTHS and words[-1] == "GMT":
        _, day, month, year, time, _ = words
        hour, minute, second = map(int, time.split(":"))
        number = _MONTHS.index(month) + 1
        return datetime(int(year), number, int(day), hour, minute, second, tzinfo=UTC)
    return parsedate_to_datetime(date)


def object_path(
    resource: AnyResource, namespace: str, name: str, subresource: str = ""
) -> str:
    """Return the path of one object, or of its subresource.

    Raises InvalidName if the name is empty, if the namespace of a namespaced resource
    is empty, or if one of them cannot be a segment of a path.
    """
    if not name:
        msg = f"{resource.group_resource}: the name of an object may not be empty"
        raise errors.InvalidName(msg)
    _require_namespace(resource, namespace)
    return _path(resource, namespace, name, subresource)


def namespace_path(resource: AnyResource, namespace: str) -> str:
    """Return the path to create an object, or to delete all objects of a namespace.

    Raises InvalidName if the namespace of a namespaced resource is empty, or cannot be
    a segment of a path.
    """
    _require_namespace(resource, namespace)
    return _path(resource, namespace)


def collection_path(resource: AnyResource, namespace: str) -> str:
    """Return the path to list or watch; an empty namespace stands for all namespaces.

    Raises InvalidName if the namespace cannot be a segment of a path.
    """
    return _path(resource, namespace)


def _require_namespace(resource: AnyResource, namespace: str) -> None:
    if resource.namespaced and not namespace:
        msg = f"{resource.group_resource}: the namespace of an object may not be empty"
        raise errors.InvalidName(msg)


def _path(
    resource: AnyResource, namespace: str, name: str = "", subresource: str = ""
) -> str:
    try:
        return resource.path(namespace, name, subresource)
    except InvalidPathSegment as error:
        raise errors.InvalidName(str(error)) from error


_LIMIT: Final = 1000
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class WarningHeaders:
    """Logs each text of Warning headers once."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._logged: set[str] = set()

    def log(self, header: str) -> None:
        """Log the warnings of a header that have not been logged yet."""
        for text in _WARNING.findall(header):
            plain = re.sub(r"\\(.)", r"\1", text)
            if plain not in self._logged and len(self._logged) < _LIMIT:
                self._logged.add(plain)
                self._logger.warning("The API server warns", warning=plain)


class RequestMetrics(Protocol):
    """Hooks that a client calls."""

    def observe_request(
        self, method: str, code: str, seconds: float, sent: int, received: int
    ) -> None:
        """Observe one request; `code` is ``<error>`` if there was no answer."""

    def observe_rate_limit(self, method: str, seconds: float) -> None:
        """Observe the wait for the client's own rate limiter."""

    def retried(self, method: str, code: str) -> None:
        """Count a retry; `code` is that of the last answer, ``<error>`` for none."""


class NoRequestMetrics:
    """Hooks that do nothing."""

    def observe_request(
        self, method: str, code: str, seconds: float, sent: int, received: int
    ) -> None:
        """Ignore."""

    def observe_rate_limit(self, method: str, seconds: float) -> None:
        """Ignore."""

    def retried(self, method: str, code: str) -> None:
        """Ignore."""


AnswerT = TypeVar("AnswerT", Response, Stream)

LIST_TIMEOUT: Final = 120.0
"""Seconds that one page of a list may take."""

_MAX_RETRIES: Final = 10
"""The most retries that a server may ask for with Retry-After (client-go's number)."""

_LARGEST_REFUSAL: Final = 1 << 20
"""The most bytes of a refused watch that are read: a Status has a few hundred."""


class RESTClient:
    """Sends requests as one identity, with its own rate limit; see `Client`."""

    def __init__(  # noqa: PLR0913 - one for each part that a caller may replace
        self,
        transport: Transport,
        clock: Clock,
        limiter: RequestLimiter | None = None,
        metrics: RequestMetrics | None = None,
        warnings: WarningHeaders | None = None,
        server_clock: ServerClock | None = None,
        *,
        in_flight: int = 0,
        write_timeout: float = WRITE_TIMEOUT,
        limits_watches: bool = False,
    ) -> None:
        self._transport = transport
        self._limits_watches = limits_watches
        self._slots = Slots(in_flight) if in_flight else None
        self.write_timeout: Final = write_timeout
        self._server_clock = server_clock or ServerClock(clock)
        self._warnings = warnings or WarningHeaders(silent_logger())
        self._clock = clock
        self._limiter = limiter or RequestLimiter(0, 0, clock)
        self._metrics = metrics or NoRequestMetrics()

    async def write(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        headers: Mapping[str, str] = JSON,
        query: Query = (),
        timeout: float = 0.0,  # noqa: ASYNC109 - it bounds one exchange
        largest: int = LARGEST_ANSWER,
    ) -> Response:
        """Send a write, as `call` does."""
        request = Request(
            method,
            path,
            query=query,
            headers=headers,
            body=body,
            timeout=timeout or self.write_timeout,
            largest_answer=largest,
        )
        return await self.call(request)

    async def call(self, request: Request, *, checks: bool = True) -> Response:
        """Send a request within the rate limit, with safe retries; check the answer.

        Without `checks` a refusal is returned, and raises no APIError.
        """
        for attempt in range(_MAX_RETRIES + 1):
            try:
                answer = await self._limited(request)
            except errors.TransportError as lost:
                if isinstance(lost, errors.NotSent):
                    self._limiter.give_back()
                # A read that timed out has had its time. Its caller has a backoff.
                is_over = isinstance(lost, errors.RequestTimeout) or attempt >= 1
                if request.method != "GET" or is_over:
                    raise
                self._metrics.retried(request.method, "<error>")
                continue
            if errors.is_success(answer.status):
                return answer
            if attempt == _MAX_RETRIES or not _asks_for_retry(answer):
                if checks:
                    raise refusal_of(answer)
                return answer
            await asyncio.sleep(refusal_of(answer).retry_after or 1.0)
            self._metrics.retried(request.method, str(answer.status))
        raise AssertionError  # the last attempt returns or raises

    async def _limited(self, request: Request) -> Response:
        if self._slots is None:
            await self._throttle(request.method)
            return await self._exchange(request)
        slots = self._slots
        slot = await slots.acquire(SYNC_KEY.get())
        try:
            # The rate is limited after a slot is free: requests that wait for a slot
            # must not use up the rate that other keys need.
            await self._throttle(request.method)
            return await self._patiently(request, slots, slot)
        finally:
            slots.release(slot)

    async def _patiently(self, request: Request, slots: Slots, slot: Slot) -> Response:
        """Send a request; let other namespaces go on if the server answers late."""
        on_wait = ON_WAIT.get()

        def give_way() -> None:
            slots.give_way(slot)
            if on_wait is not None:
                on_wait()

        timer = asyncio.get_running_loop().call_later(PATIENCE, give_way)
        try:
            return await self._exchange(request)
        finally:
            timer.cancel()

    async def _throttle(self, method: str) -> None:
        waited = await self._limiter.acquire()
        self._metrics.observe_rate_limit(method, waited)

    async def _exchange(self, request: Request) -> Response:
        started = self._clock.monotonic()
        code, received = "<error>", 0
        try:
            answer = await self._transport.request(request)
            code, received = str(answer.status), len(answer.body)
            if date := answer.headers.get("date"):
                self._server_clock.observe(date)
            if warning := answer.headers.get("warning"):
                self._warnings.log(warning)
            return answer
        finally:
            self._metrics.observe_request(
                request.method,
                code,
                self._clock.monotonic() - started,
                len(request.body or b""),
                received,
            )

    async def raw(self, request: Request) -> Response:
        """Send a request without the rate limit, a read once more if need be."""
        return await self._repeated(request, self._exchange)

    async def open(self, request: Request) -> Stream:
        """Open a watch as `streamed` does; raises an APIError for a refusal."""
        stream = await self.streamed(request)
        if stream.status != HTTPStatus.OK:
            try:
                await _refuse(stream)
            finally:
                await stream.close()
        return stream

    async def streamed(self, request: Request) -> Stream:
        """Send a read; return its answer as a stream, which may be a refusal.

        The rate limit holds if it holds for watches.
        """
        started = self._clock.monotonic()
        stream = await self._opened(request)
        try:
            self._metrics.observe_request(
                "GET", str(stream.status), self._clock.monotonic() - started, 0, 0
            )
            if warning := stream.headers.get("warning"):
                self._warnings.log(warning)
        except BaseException:
            await stream.close()
            raise
        return stream

    async def _opened(self, request: Request) -> Stream:
        if not self._limits_watches:
            return await self._repeated(request, self._transport.stream)
        await self._throttle(request.method)
        try:
            return await self._repeated(request, self._transport.stream)
        except errors.NotSent:
            self._limiter.give_back()
            raise

    async def _repeated(
        self, request: Request, send: Callable[[Request], Awaitable[AnswerT]]
    ) -> AnswerT:
        """Send a read, and once more if its connection breaks.

        The server may have closed an idle connection at that moment.
        """
        try:
            return await send(request)
        except (errors.NotSent, errors.RequestTimeout):
            raise
        except errors.TransportError:
            if request.method not in READS:
                raise
            self._metrics.retried(request.method, "<error>")
            return await send(request)


async def _refuse(stream: Stream) -> None:
    body = await _beginning(stream)
    raise refusal_of(Response(stream.status, stream.headers, body))


async def _beginning(stream: Stream) -> bytes:
    """Return the beginning of a refusal, which is all of any that can be read."""
    parts: list[bytes] = []
    left = _LARGEST_REFUSAL
    async with aclosing(stream.chunks()) as chunks:
        async for chunk in chunks:
            parts.append(chunk[:left])
            left -= len(chunk)
            if left <= 0:
                break
    return b"".join(parts)


def refusal_of(answer: Response) -> errors.APIError:
    """Return the exception for an answer without success."""
    headers = answer.headers
    retry_after, location = headers.get("retry-after"), headers.get("location")
    return errors.error_from_response(answer.status, answer.body, retry_after, location)


def _asks_for_retry(answer: Response) -> bool:
    overloaded = (
        answer.status == HTTPStatus.TOO_MANY_REQUESTS
        or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    )
    return overloaded and "retry-after" in answer.headers
