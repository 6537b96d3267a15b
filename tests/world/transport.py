"""A transport with random faults."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Protocol

from controller_manager.client.rest.errors import RequestTimeout, TransportError
from controller_manager.client.rest.transport import Request, Response, Stream

from .faults import REQUEST_FAULTS, WATCH_FAULTS, Fault, Faults
from .network import (
    Connection,
    LiveStream,
    outside,
    plural_of,
    sleep_until,
    until_idle,
)
from .writers import WRITER

_ANSWERS: Final[Mapping[str, Response]] = {
    "conflict": Response(409, {}, b'{"reason":"Conflict","code":409}'),
    "429": Response(
        429, {"retry-after": "2"}, b'{"reason":"TooManyRequests","code":429}'
    ),
    "500": Response(500, {}, b'{"reason":"InternalError","code":500}'),
    "502 html": Response(502, {"content-type": "text/html"}, b"<html>Bad Gateway"),
    "503": Response(503, {}, b'{"reason":"ServiceUnavailable","code":503}'),
    "504": Response(504, {}, b'{"reason":"Timeout","code":504}'),
    "refused by admission": Response(
        403,
        {},
        b'{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,'
        b'"message":"admission webhook \\"policy.example\\" denied the request"}',
    ),
}
_ABOUT: Final[Mapping[str, tuple[str, ...]]] = {
    "conflict": ("PUT", "PATCH", "DELETE"),
    "refused by admission": ("POST", "PUT", "PATCH"),
}
"""The methods that an answer is possible for; all methods if it is not listed."""

_FAILS_FOR_GOOD: Final = ("storage-version-migrator-controller", "PATCH")
"""Whose request of which method may not be refused: the migration fails, as upstream's,
and nobody tries it again."""

_GARBAGE: Final = Response(200, {"content-type": "text/html"}, b"<html>welcome")
_GONE: Final = (
    b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired",'
    b'"message":"too old resource version"}}\n'
)


class Observer(Protocol):
    """Observes writes."""

    def before_write(self, request: Request) -> Any:
        """Return the object before a write."""

    def record_read(self, request: Request, answer: Response) -> None:
        """Record that the manager has read an object."""

    def after_write(
        self, request: Request, answer: Response, before: Any, writer: str
    ) -> None:
        """Check the result of a write of `writer`, a controller's name."""


@dataclass
class FaultyTransport:
    """The transport of one run of a manager.

    Passes requests on unless a fault happens; shows every write to `observer`;
    `crash` ends the run. After that, nothing of the run arrives any more.
    """

    connection: Connection
    faults: Faults
    name: str
    crash: Callable[[], None]
    observer: Observer | None = None
    alive: bool = True

    @property
    def host(self) -> str:
        return self.connection.host

    def _draw(self, chances: Mapping[str, float], what: str, path: str) -> Fault | None:
        place = f"{self.name} {what} {plural_of(path)}"
        return self.faults.draw(chances, place, self.connection.now())

    def _check_alive(self) -> None:
        if not self.alive:
            msg = "this process has ended"
            raise TransportError(msg)

    async def request(self, request: Request) -> Response:
        self._check_alive()
        return await outside(self._request(request, WRITER.get()))

    async def _request(self, request: Request, writer: str) -> Response:
        what = f"{request.method} {request.path}"
        fault = self._draw(REQUEST_FAULTS, request.method, request.path)
        # Every request takes some time, which varies.
        await asyncio.sleep(0.001 + 0.004 * self.faults.noise(self.name))
        if self.connection.cuts_off(request):
            await self._hang(request)
        self.connection.check(request)
        kind = fault.kind if fault is not None else ""
        match kind:
            case "reset before":
                raise _ResetError(what)
            case "hang before":
                await self._hang(request)
            case "crash before":
                await self._crash(request)
            case "slow":
                await asyncio.sleep(min(3.0, request.timeout * 0.9))
            case "refused by admission" if (writer, request.method) == _FAILS_FOR_GOOD:
                pass
            case _ if request.method in _ABOUT.get(kind, (request.method,)):
                if kind in _ANSWERS:
                    return _ANSWERS[kind]
        answer = await self._pass_on(request, writer)
        match kind:
            case "reset after":
                raise _ResetError(what)
            case "hang after":
                await self._hang(request)
            case "crash after":
                await self._crash(request)
            case "garbage after":
                return _GARBAGE
        return answer

    async def _pass_on(self, request: Request, writer: str) -> Response:
        if self.observer is None:
            return await self.connection.request(request)
        if request.method == "GET":
            answer = await self.connection.request(request)
            self.observer.record_read(request, answer)
            return answer
        before = self.observer.before_write(request)
        answer = await self.connection.request(request)
        self.observer.after_write(request, answer, before, writer)
        return answer

    async def _hang(self, request: Request) -> None:
        await asyncio.sleep(request.timeout)
        msg = f"{request.method} {request.path}: no answer"
        raise RequestTimeout(msg)

    async def _crash(self, request: Request) -> None:
        self.crash()
        await self._hang(request)

    async def stream(self, request: Request) -> Stream:
        self._check_alive()
        inner = await outside(self._stream(request))
        self.connection.opened += 1
        number = self.connection.opened
        corrupt = self._corrupt(inner, request, number)
        return LiveStream(inner, self.connection, corrupt, request.timeout, number)

    async def _stream(self, request: Request) -> Stream:
        what = f"WATCH {request.path}"
        fault = self._draw(REQUEST_FAULTS, "WATCH", request.path)
        kind = fault.kind if fault is not None else ""
        self.connection.check(request)
        if kind.startswith("reset"):
            raise _ResetError(what)
        if kind.startswith("hang") or self.connection.cuts_off(request):
            await self._hang(request)
        return await self.connection.stream(request)

    async def _corrupt(
        self, inner: Stream, request: Request, number: int
    ) -> AsyncGenerator[bytes, None]:
        what = f"watch {request.path}"
        before = b""
        bookmarks = True
        async with (
            aclosing(inner.chunks()) as coming,
            aclosing(until_idle(coming, self.connection)) as chunks,
        ):
            async for chunk in chunks:
                if self.connection.cuts_off(request):
                    raise _ResetError(what)
                fault = self._draw(WATCH_FAULTS, "chunk", request.path)
                match fault.kind if fault is not None else "":
                    case "cut":
                        raise _ResetError(what)
                    case "end":
                        return
                    case "silence":
                        self.connection.impaired.add(number)
                        await self._hang(request)
                    case "garbage":
                        yield b'{"type":"ADDED","object":[\n'
                    case "gone":
                        yield _GONE
                        return
                    case "duplicates":
                        yield before
                    case "no bookmarks":
                        self.connection.impaired.add(number)
                        bookmarks = False
                    case "lag" if fault is not None:
                        # Mostly seconds, sometimes a minute.
                        await asyncio.sleep(90 * fault.share**3)
                await sleep_until(self.connection.lag_of(request))
                if not bookmarks:
                    chunk = _without_bookmarks(chunk)  # noqa: PLW2901 - corrupt
                if chunk:
                    yield chunk
                before = chunk

    async def close(self) -> None:
        pass


class _ResetError(TransportError):
    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: connection reset")


def _without_bookmarks(chunk: bytes) -> bytes:
    lines = chunk.splitlines(keepends=True)
    return b"".join(line for line in lines if b'"type":"BOOKMARK"' not in line)
