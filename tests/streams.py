"""Transports and streams that a test changes on their way."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

from controller_manager.client.rest.transport import (
    Request,
    Response,
    Stream,
    Transport,
)


@dataclass
class PassedTransport:
    """Passes all requests on. It leaves the other transport open."""

    inner: Transport

    @property
    def host(self) -> str:
        return self.inner.host

    async def request(self, request: Request) -> Response:
        return await self.inner.request(request)

    async def stream(self, request: Request) -> Stream:
        return await self.inner.stream(request)

    async def close(self) -> None:
        pass


class FakeTransport:
    """A transport without a server: subclasses answer requests, and no watches."""

    host = "test"

    async def stream(self, request: Request) -> Stream:
        raise AssertionError(request)

    async def close(self) -> None:
        pass


@dataclass
class PassedStream:
    inner: Stream

    @property
    def status(self) -> int:
        return self.inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self.inner.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async for chunk in self.inner.chunks():
            yield chunk

    async def close(self) -> None:
        await self.inner.close()
