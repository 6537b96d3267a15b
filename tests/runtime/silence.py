"""Watches that say nothing for a while, as behind a broken proxy."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from controller_manager.client.rest import transport
from tests.streams import PassedStream, PassedTransport


@dataclass
class SilentStream(PassedStream):
    """A stream whose chunks wait while its resource is silent."""

    speaks: asyncio.Event

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async for chunk in self.inner.chunks():
            await self.speaks.wait()
            yield chunk


@dataclass
class SilentWatches(PassedTransport):
    """Passes everything on, but for events of the resources that are silenced."""

    _speaks: dict[str, asyncio.Event] = field(default_factory=dict)

    def _of(self, plural: str) -> asyncio.Event:
        if plural not in self._speaks:
            self._speaks[plural] = asyncio.Event()
            self._speaks[plural].set()
        return self._speaks[plural]

    def silence(self, plural: str) -> None:
        """Hold back all events of a resource from now on."""
        self._of(plural).clear()

    def speak(self, plural: str) -> None:
        """Let the events of a resource through again, those of meanwhile first."""
        self._of(plural).set()

    async def stream(self, request: transport.Request) -> transport.Stream:
        plural = request.path.rpartition("/")[2]
        return SilentStream(await self.inner.stream(request), self._of(plural))
