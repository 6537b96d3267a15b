"""A stream that a test changes on its way."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

from controller_manager.client.rest.transport import Stream


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
