"""Look-ups of the API server's name, with the time that they take."""

import asyncio
import socket

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from controller_manager.client.wire.dialing import ObserveLookUp


class MeasuringResolver(AbstractResolver):
    """Resolves names as aiohttp does, and tells how long each look-up takes.

    A failed look-up counts, too; an address needs no look-up. Upstream: client-go
    rest/request.go, newDNSMetricsTrace. Upstream looks the name up for each connection.
    """

    def __init__(self, observe: ObserveLookUp) -> None:
        """Take the hook; call this in a running event loop."""
        self._observe = observe
        self._inner = aiohttp.DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of `host`; raises OSError if there are none."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            return await self._inner.resolve(host, port, family)
        finally:
            self._observe(host, loop.time() - started)

    async def close(self) -> None:
        """Release what the resolver holds."""
        await self._inner.close()
