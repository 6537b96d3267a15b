"""Servers that answer bytes, transports to them, and the ownership of keys."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from controller_manager.client.identity.credentials import Credentials
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(
    serve: Serve, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncGenerator[int, None]:
    """Yield the port of a server; connections that are left end with it."""
    tasks: set[asyncio.Task[None]] = set()

    async def until_its_end(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has closed the connection
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(until_its_end(reader, writer)))

    server = await asyncio.start_server(accept, host, 0, ssl=tls)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


@asynccontextmanager
async def connected(
    url: str, observe_look_up: Any = None, **credentials: Any
) -> AsyncGenerator[HTTPTransport, None]:
    more = {"observe_look_up": observe_look_up} if observe_look_up else {}
    transport = HTTPTransport(
        Credentials(url, clock=SystemClock(), **credentials), "test", **more
    )
    try:
        yield transport
    finally:
        await transport.close()


@dataclass
class Owned:
    """All keys are owned as long as `seconds` is positive."""

    seconds: float = 1000.0

    def seconds_left(self, key: str) -> float:
        del key
        return self.seconds
