"""The timeouts of one connection, on virtual time."""

import asyncio
import resource
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest
import pytest_asyncio
from aiohttp import web

from controller_manager.observability.logs import silent_logger
from controller_manager.serving.connection import Connection, ConnectionLimits

LIMITS = ConnectionLimits()
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"

pytestmark = pytest.mark.looptime


class FakeTransport(asyncio.Transport):
    """The other end of a connection; notes when it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: asyncio.Protocol | None = None
        self.written = b""
        self.closed_at: float | None = None

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self.closed_at is not None

    def close(self) -> None:
        if self.closed_at is None:
            loop = asyncio.get_running_loop()
            self.closed_at = loop.time()
            assert self.protocol is not None
            loop.call_soon(self.protocol.connection_lost, None)

    abort = close

    def pause_reading(self) -> None:
        """Go on: what this peer sends, it sends at once."""

    def resume_reading(self) -> None:
        """Go on."""


class Peer:
    def __init__(self, server: web.Server, limits: ConnectionLimits) -> None:
        self.transport = FakeTransport()
        self.connection = Connection(server, limits, silent_logger())
        self.transport.protocol = self.connection
        self._began = asyncio.get_running_loop().time()
        self.connection.connection_made(self.transport)

    @property
    def answers(self) -> int:
        return self.transport.written.count(b"HTTP/1.1 200")

    @property
    def closed_after(self) -> float | None:
        """Seconds that the connection lasted, `None` if it lives."""
        closed_at = self.transport.closed_at
        return None if closed_at is None else round(closed_at - self._began, 3)

    async def send(self, data: bytes) -> None:
        self.connection.data_received(data)
        for _ in range(5):
            await asyncio.sleep(0)

    async def trickle(self, data: bytes, interval: float) -> None:
        for byte in data:
            if self.transport.is_closing():
                return
            await self.send(bytes([byte]))
            await asyncio.sleep(interval)


class Handlers:
    """A server whose requests take as long as a test says."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.body = b""
        self.server = web.Server(self._handle, handler_cancellation=True)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = cast(Connection, request.protocol)
        connection.begin()
        connection.admit()
        await asyncio.sleep(self.seconds)
        return web.Response(body=self.body)

    def peer(self, limits: ConnectionLimits = LIMITS) -> Peer:
        return Peer(self.server, limits)


@pytest_asyncio.fixture
async def handlers() -> AsyncIterator[Handlers]:
    made = Handlers()
    yield made
    await made.server.shutdown(0)
    await asyncio.sleep(0)


async def test_a_peer_that_is_silent_is_cut_off(handlers: Handlers) -> None:
    peer = handlers.peer()
    await asyncio.sleep(100)
    assert (peer.closed_after, peer.connection.closed.done()) == (32.0, True)


async def test_single_bytes_do_not_prolong_a_header(handlers: Handlers) -> None:
    first, later = handlers.peer(), handlers.peer()
    await later.send(REQUEST)
    await asyncio.sleep(50)
    await asyncio.gather(first.trickle(REQUEST, 5), later.trickle(REQUEST, 5))
    assert (first.closed_after, first.answers) == (32.0, 0)
    assert (later.closed_after, later.answers) == (50.0 + 32.0, 1)


async def test_a_connection_may_be_idle_for_90_seconds(handlers: Handlers) -> None:
    peer = handlers.peer()
    for _ in range(3):
        await peer.send(REQUEST)
        await asyncio.sleep(89)
    await peer.send(REQUEST)
    assert (peer.closed_after, peer.answers) == (None, 4)
    await asyncio.sleep(200)
    assert peer.closed_after == 3 * 89 + 90


async def test_a_handler_may_take_its_time(handlers: Handlers) -> None:
    """A long page to a slow client, for example; it is never the one to be closed."""
    handlers.seconds = 300
    peer = handlers.peer()
    await peer.send(REQUEST)
    await asyncio.sleep(200)
    assert peer.connection.is_admitted
    await asyncio.sleep(100.1)
    assert (peer.closed_after, peer.answers) == (None, 1)
    assert not peer.connection.is_admitted


async def test_a_client_that_does_not_read_is_cut_off(handlers: Handlers) -> None:
    """One that reads a little now and then is not."""
    handlers.seconds = 300
    deaf, slow = handlers.peer(), handlers.peer()
    for peer in (deaf, slow):
        await peer.send(REQUEST)
        peer.connection.pause_writing()
    for _ in range(5):
        await asyncio.sleep(20)
        slow.connection.resume_writing()
        slow.connection.pause_writing()
    slow.connection.resume_writing()
    await asyncio.sleep(100)
    assert (deaf.closed_after, slow.closed_after) == (30.0, None)


async def test_an_unread_body_is_awaited_for_ten_seconds(handlers: Handlers) -> None:
    """After the answer, so that the client can read it."""
    peer = handlers.peer()
    await peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n")
    assert peer.answers == 1
    await peer.trickle(b"x" * 50, 1)
    assert peer.closed_after == pytest.approx(10, abs=1)


@pytest.mark.parametrize(
    ("files", "connections"),
    [(256, 64), (1024, 250), (1_048_576, 250), (resource.RLIM_INFINITY, 250), (3, 1)],
)
async def test_connections_take_a_quarter_of_the_files_at_most(
    monkeypatch: pytest.MonkeyPatch, files: int, connections: int
) -> None:
    """And never more than 250."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    expected = replace(LIMITS, connections=connections)
    assert ConnectionLimits.for_this_process() == expected
