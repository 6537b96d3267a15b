"""A TCP proxy that closes idle connections."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class CuttingProxy:
    """Forwards bytes, and closes a connection after `idle` seconds without any."""

    def __init__(self, target: int, idle: float) -> None:
        """Take the port to connect to, on the loopback interface."""
        self._target = target
        self._idle = idle
        self._connections: set[asyncio.Task[None]] = set()
        self.cuts = 0
        """The number of connections that were closed because they were idle."""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[int, None]:
        """Listen while entered; yields the port."""
        server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            await server.wait_closed()

    def _accepted(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.create_task(self._connected(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", self._target)
        link = _Link()
        pumps = {
            asyncio.create_task(link.pump(reader, outer)),
            asyncio.create_task(link.pump(inner, writer)),
        }
        try:
            await self._until_over(link, pumps)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for each in (outer, writer):
                each.close()

    async def _until_over(
        self, link: "_Link", pumps: set["asyncio.Task[None]"]
    ) -> None:
        """Wait until one side has closed, or no byte came for too long."""
        while (left := self._idle - link.silence()) > 0:
            over, _ = await asyncio.wait(
                pumps, timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
            if over:
                return
        self.cuts += 1


class _Link:
    """Both directions of one connection."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()

    def silence(self) -> float:
        """Return the seconds since the last byte in either direction."""
        return self._loop.time() - self._heard_at

    async def pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        """Forward bytes until the source ends."""
        while data := await source.read(65536):
            self._heard_at = self._loop.time()
            sink.write(data)
            await sink.drain()
