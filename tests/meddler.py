"""Transports that stand between a manager and the API server in a test."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from controller_manager.client.rest import transport
from tests.streams import PassedTransport


@dataclass
class Meddler(PassedTransport):
    """Passes requests on; `meddle` may act before one, or answer in its place."""

    meddle: (
        Callable[[transport.Request], Awaitable[transport.Response | None]] | None
    ) = None

    async def request(self, request: transport.Request) -> transport.Response:
        answer = await self.meddle(request) if self.meddle else None
        return answer or await self.inner.request(request)


@dataclass
class Observer(PassedTransport):
    """Passes requests on, and notes each with the status of its answer."""

    def note(self, request: transport.Request, status: int) -> None:
        """Take a request and the status of its answer; a subclass implements it."""
        raise NotImplementedError

    async def request(self, request: transport.Request) -> transport.Response:
        answer = await self.inner.request(request)
        self.note(request, answer.status)
        return answer

    async def stream(self, request: transport.Request) -> transport.Stream:
        stream = await self.inner.stream(request)
        self.note(request, stream.status)
        return stream
