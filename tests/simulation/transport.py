"""A way to the server on which things go wrong."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Protocol

from controller_manager.client.errors import RequestTimeout, TransportError
from controller_manager.client.transport import Request, Response, Stream, Transport
from tests.simulation.faults import REQUEST_FAULTS, WATCH_FAULTS, Faults

_ANSWERS: Final[Mapping[str, Response]] = {
    "conflict": Response(409, {}, b'{"reason":"Conflict","code":409}'),
    "429": Response(
        429, {"retry-after": "2"}, b'{"reason":"TooManyRequests","code":429}'
    ),
    "500": Response(500, {}, b'{"reason":"InternalError","code":500}'),
    "503": Response(503, {}, b'{"reason":"ServiceUnavailable","code":503}'),
    "504": Response(504, {}, b'{"reason":"Timeout","code":504}'),
}
_GONE: Final = (
    b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired",'
    b'"message":"too old resource version"}}\n'
)


class Observer(Protocol):
    """Who looks at writes."""

    def look(self, request: Request) -> Any:
        """Return what there is before a write."""

    def applied(self, request: Request, answer: Response, before: Any) -> None:
        """Look at what has become of it."""


@dataclass
class FaultyTransport:
    """Passes on what it does not spoil; shows every write to `observer`."""

    inner: Transport
    faults: Faults
    observer: Observer | None = None
    no_lease_until: float = 0.0
    """Until when nothing about leases goes through, whatever else does."""

    @property
    def host(self) -> str:
        return "simulated"

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def request(self, request: Request) -> Response:
        what = f"{request.method} {request.path}"
        fault = self.faults.draw(REQUEST_FAULTS, what, self._now())
        # Nothing takes no time, and not always the same.
        await asyncio.sleep(0.001 + 0.004 * self.faults.rng.random())
        if self._is_cut_off(request):
            await self._hang(request)
        match fault:
            case "reset before":
                msg = f"{what}: connection reset"
                raise TransportError(msg)
            case "hang before":
                await self._hang(request)
            case "slow":
                await asyncio.sleep(min(3.0, request.timeout * 0.9))
            case "conflict" if request.method in ("GET", "POST"):
                pass  # a conflict is about a version
            case str() if fault in _ANSWERS:
                return _ANSWERS[fault]
        answer = await self._pass_on(request)
        match fault:
            case "reset after":
                msg = f"{what}: connection reset"
                raise TransportError(msg)
            case "hang after":
                await self._hang(request)
        return answer

    async def _pass_on(self, request: Request) -> Response:
        if request.method == "GET" or self.observer is None:
            return await self.inner.request(request)
        before = self.observer.look(request)
        answer = await self.inner.request(request)
        self.observer.applied(request, answer, before)
        return answer

    async def _hang(self, request: Request) -> None:
        await asyncio.sleep(request.timeout)
        msg = f"{request.method} {request.path}: no answer"
        raise RequestTimeout(msg)

    async def stream(self, request: Request) -> Stream:
        fault = self.faults.draw(REQUEST_FAULTS, f"WATCH {request.path}", self._now())
        if fault in ("reset before", "reset after"):
            msg = f"WATCH {request.path}: connection reset"
            raise TransportError(msg)
        if fault in ("hang before", "hang after"):
            await self._hang(request)
        if self._is_cut_off(request):
            await self._hang(request)
        inner = await self.inner.stream(request)
        return _FaultyStream(inner, request, self.faults, self)

    def _is_cut_off(self, request: Request) -> bool:
        return "/leases" in request.path and self._now() < self.no_lease_until

    async def close(self) -> None:
        pass


@dataclass
class _FaultyStream:
    inner: Stream
    request: Request
    faults: Faults
    way: FaultyTransport

    @property
    def status(self) -> int:
        return self.inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self.inner.headers

    async def close(self) -> None:
        await self.inner.close()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self.inner.chunks()) as chunks:
            spoilt = self._spoilt(chunks)
            async with aclosing(spoilt):
                async for chunk in spoilt:
                    yield chunk

    async def _spoilt(
        self, chunks: AsyncGenerator[bytes, None]
    ) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        what = f"watch {self.request.path}"
        before = b""
        async for chunk in chunks:
            if self.way._is_cut_off(self.request):
                msg = f"{what}: cut off"
                raise TransportError(msg)
            fault = self.faults.draw(WATCH_FAULTS, what, loop.time())
            match fault:
                case "cut":
                    msg = f"{what}: connection reset"
                    raise TransportError(msg)
                case "end":
                    return
                case "silence":
                    await asyncio.sleep(self.request.timeout)
                    msg = f"{what}: no answer"
                    raise RequestTimeout(msg)
                case "garbage":
                    yield b'{"type":"ADDED","object":[\n'
                case "gone":
                    yield _GONE
                    return
                case "duplicates":
                    yield before
                case "lag":
                    await asyncio.sleep(60 * self.faults.rng.random())
            yield chunk
            before = chunk
