"""A transport with which a test acts between a manager and the API server."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from controller_manager.client.transport import Request, Response, Stream, Transport


@dataclass
class Meddler:
    """Passes requests on; `meddle` may act before one, or answer in its place."""

    inner: Transport
    meddle: Callable[[Request], Awaitable[Response | None]] | None = None
    host: str = "meddler"

    async def request(self, request: Request) -> Response:
        answer = await self.meddle(request) if self.meddle else None
        return answer or await self.inner.request(request)

    async def stream(self, request: Request) -> Stream:
        return await self.inner.stream(request)

    async def close(self) -> None:
        """Leave the inner transport open: it is the cluster's."""
