"""A write is sent once, and only while this process may write."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import uvloop

from controller_manager.api.core.v1 import CONFIG_MAPS
from controller_manager.client.identity.tls import TLSMaterial
from controller_manager.client.leadership.fencing import FencedTransport, NotLeading
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import (
    NotSent,
    RequestTimeout,
    TransportError,
)
from controller_manager.client.rest.transport import Request
from controller_manager.client.wire import dialing
from controller_manager.client.wire.dialing import keepalive_socket
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from controller_manager.serving.certificates import self_signed
from tests.http import servers
from tests.http.servers import Owned

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
PATH = "/api/v1/namespaces/default/configmaps/a"
TIMES = 20


CHECKS = 3
"""The number of checks of the ownership for a write on a connection that is open.

Before anything, by the timer, and when it is written.
"""


@dataclass
class Asked(Owned):
    """Tells when the last part of a request is written."""

    checks: int = 0
    asked: int = 0
    asked_by_all: asyncio.Event = field(default_factory=asyncio.Event)

    def seconds_left(self, key: str) -> float:
        self.asked += 1
        if self.asked == self.checks:
            self.asked_by_all.set()
        return super().seconds_left(key)


@dataclass
class Received(asyncio.Protocol):
    answers: Callable[[int], bytes]
    """Returns the answer to a request by its number on the connection."""
    content: bytes = b""
    requests: list[bytes] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none

    def data_received(self, data: bytes) -> None:
        self.content += data
        while b"\r\n\r\n" in self.content and self._is_whole():
            self.requests.append(self.content.split(b" ", 1)[0])
            self.content = b""
            if answer := self.answers(len(self.requests)):
                self.transport.write(answer)
            else:
                self.transport.abort()

    def _is_whole(self) -> bool:
        head, _, body = self.content.partition(b"\r\n\r\n")
        lengths = [
            int(line.split(b":")[1])
            for line in head.splitlines()
            if line.lower().startswith(b"content-length:")
        ]
        return len(body) >= sum(lengths)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.ended.set()


@dataclass
class Server:
    """Accepts connections at once, and serves each one as soon as `gate` is open."""

    tls: ssl.SSLContext | None = None
    answers: Callable[[int], bytes] = lambda _: ANSWER
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    accepted: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    connections: list[Received] = field(default_factory=list)
    receive_buffer: int = 0
    port: int = 0

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            if self.receive_buffer:
                listener.setsockopt(
                    socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer
                )
            listener.settimeout(0)
            self.port = listener.getsockname()[1]
            async with asyncio.TaskGroup() as tasks:
                accepting = tasks.create_task(self._accept(listener, tasks))
                yield
                accepting.cancel()

    async def _accept(self, listener: socket.socket, tasks: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            accepted, _ = await loop.sock_accept(listener)
            self.accepted.release()
            tasks.create_task(self._serve(accepted))

    async def _serve(self, accepted: socket.socket) -> None:
        await self.gate.wait()
        received = Received(self.answers)
        self.connections.append(received)
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: received, accepted, ssl=self.tls)
        except OSError:
            return  # the client has gone
        await received.ended.wait()

    def seen(self) -> list[bytes]:
        return [
            part
            for each in self.connections
            for part in (*each.requests, each.content)
            if part
        ]


@pytest.fixture(scope="module")
def certificate() -> ssl.SSLContext:
    return self_signed("ca", ["127.0.0.1"]).ssl_context()


@asynccontextmanager
async def connected(
    server: Server, host: str = "127.0.0.1"
) -> AsyncGenerator[HTTPTransport, None]:
    scheme = "https" if server.tls else "http"
    async with server.running():
        url = f"{scheme}://{host}:{server.port}"
        async with servers.connected(url, tls=TLSMaterial(verify=False)) as transport:
            try:
                yield transport
            finally:
                server.gate.set()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST", "GET"])
async def test_a_request_whose_answer_is_lost_is_not_sent_again(method: str) -> None:
    """The server may have applied it; the connection was in use before."""
    server = Server(answers=lambda number: ANSWER if number == 1 else b"")
    server.gate.set()
    body = None if method == "GET" else b"{}"
    async with connected(server) as transport:
        await transport.request(Request("GET", PATH))
        with pytest.raises(TransportError) as lost:
            await transport.request(Request(method, PATH, body=body))
        assert not isinstance(lost.value, NotSent)
    assert server.seen() == [b"GET", method.encode()]


async def test_the_client_repeats_a_read_once_and_no_write() -> None:
    """It is the only layer that repeats, so a read is sent twice, not four times."""
    server = Server(answers=lambda _: b"")
    server.gate.set()
    async with connected(server) as transport:
        client = Client(transport, SystemClock())
        for attempt in (
            client.get(CONFIG_MAPS, "default", "a"),
            client.delete(CONFIG_MAPS, "default", "a"),
        ):
            with pytest.raises(TransportError):
                await attempt
    assert server.seen() == [b"GET", b"GET", b"DELETE"]


async def test_a_watch_is_opened_again_if_its_connection_breaks() -> None:
    """And so is the read of a document; both go on the connections of other reads."""
    server = Server(answers=lambda number: ANSWER if number == 1 else b"")
    server.gate.set()
    async with connected(server) as transport:
        client = Client(transport, SystemClock())
        await client.raw("GET", "/healthz")
        assert (await client.raw("GET", "/healthz")).status == 200
        async with aclosing(client.watch(CONFIG_MAPS)) as batches:
            assert await anext(batches) == []
    assert server.seen() == [b"GET"] * 5
    assert len(server.connections) == 3


@dataclass
class Held:
    """A write that waits for something; `go_on` ends that."""

    server: Server
    client: Client
    owned: Owned
    waits: asyncio.Semaphore
    go_on: Callable[[], None]


@asynccontextmanager
async def for_a_slot(
    monkeypatch: pytest.MonkeyPatch, certificate: ssl.SSLContext
) -> AsyncGenerator[Held, None]:
    """Wait for another request, which has the only slot of the client."""
    del monkeypatch, certificate
    server, owned = Server(), Owned()
    async with connected(server) as transport:
        fenced = FencedTransport(transport, owned)
        client = Client(fenced, SystemClock(), in_flight=1)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(client.get(CONFIG_MAPS, "default", "a"))
            yield Held(server, client, owned, server.accepted, server.gate.set)


@asynccontextmanager
async def for_an_address(
    monkeypatch: pytest.MonkeyPatch, certificate: ssl.SSLContext
) -> AsyncGenerator[Held, None]:
    """Wait for the name server."""
    del certificate
    server, owned = Server(), Owned()
    server.gate.set()
    asked, answered = asyncio.Semaphore(0), asyncio.Event()

    async def look_up(_: str, port: int, **__: Any) -> list[Any]:
        asked.release()
        await answered.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    async with connected(server, "api.test") as transport:
        client = Client(FencedTransport(transport, owned), SystemClock())
        yield Held(server, client, owned, asked, answered.set)


@asynccontextmanager
async def for_the_handshake(
    monkeypatch: pytest.MonkeyPatch, certificate: ssl.SSLContext
) -> AsyncGenerator[Held, None]:
    """Wait for the server, which has accepted the connection."""
    del monkeypatch
    server, owned = Server(tls=certificate), Owned()
    async with connected(server) as transport:
        client = Client(FencedTransport(transport, owned), SystemClock())
        yield Held(server, client, owned, server.accepted, server.gate.set)


HANDSHAKES = pytest.param(for_the_handshake, marks=pytest.mark.slow)


@pytest.mark.parametrize("stage", [for_a_slot, for_an_address, HANDSHAKES])
async def test_no_byte_of_a_write_is_sent_if_the_lease_ends_while_it_waits(
    stage: Any, monkeypatch: pytest.MonkeyPatch, certificate: ssl.SSLContext
) -> None:
    """The wait ends before the check that cancels a write, as after a suspension."""
    errors: list[type] = []
    seen: list[bytes] = []
    for _ in range(TIMES):
        async with AsyncExitStack() as stack:
            held = await stack.enter_async_context(stage(monkeypatch, certificate))
            writing = asyncio.create_task(held.client.delete(CONFIG_MAPS, "n", "a"))
            await held.waits.acquire()
            held.owned.seconds = 0.0
            held.go_on()
            results = await asyncio.gather(writing, return_exceptions=True)
        errors += [type(each) for each in results]
        seen += [each for each in held.server.seen() if each != b"GET"]
    assert (errors, seen) == ([NotLeading] * TIMES, [])


async def test_no_byte_of_a_write_is_sent_if_the_lease_ends_in_its_last_turn() -> None:
    answers: list[float] = []

    class Ending(Owned):
        def seconds_left(self, key: str) -> float:
            del key
            return answers.pop()

    errors, seen = [], []
    for _ in range(TIMES):
        server = Server()
        server.gate.set()
        async with connected(server) as transport:
            await transport.request(Request("GET", PATH))
            answers[:] = [0.0, *[9.0] * (CHECKS - 1)]
            client = Client(FencedTransport(transport, Ending()), SystemClock())
            with pytest.raises(TransportError) as refusal:
                await client.delete(CONFIG_MAPS, "n", "a")
        errors.append(type(refusal.value))
        seen += server.seen()
    assert (errors, seen) == ([NotLeading] * TIMES, [b"GET"] * TIMES)


@pytest.mark.parametrize("encrypted", [False, True])
async def test_the_rest_of_a_write_is_not_sent_after_the_lease_has_ended(
    encrypted: bool, monkeypatch: pytest.MonkeyPatch, certificate: ssl.SSLContext
) -> None:
    """A server that reads nothing for a while leaves it in the buffer of the loop."""
    make = keepalive_socket

    def with_small_buffer(address: Any) -> socket.socket:
        made = make(address)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        return made

    monkeypatch.setattr(dialing, "keepalive_socket", with_small_buffer)
    size = 900_000
    server = Server(certificate if encrypted else None, receive_buffer=8192)
    server.gate.set()
    async with connected(server) as transport:
        await transport.request(Request("GET", PATH))
        (connection,) = server.connections
        connection.transport.pause_reading()
        owned = Asked(0.1, CHECKS)
        request = Request("PUT", PATH, body=b"x" * size)
        writing = asyncio.create_task(
            FencedTransport(transport, owned).request(request)
        )
        await owned.asked_by_all.wait()
        owned.seconds = 0.0
        with pytest.raises(RequestTimeout, match="no answer while this process led"):
            await writing
        connection.transport.resume_reading()
        async with asyncio.timeout(10):
            await connection.ended.wait()
    assert connection.requests == [b"GET"]
    assert 0 < len(connection.content) < size


@pytest.mark.parametrize("stage", [for_a_slot, HANDSHAKES])
def test_the_fence_holds_on_the_event_loop_of_the_daemon(
    stage: Any, monkeypatch: pytest.MonkeyPatch, certificate: ssl.SSLContext
) -> None:
    """It runs on uvloop, which the other tests do not."""
    waits = test_no_byte_of_a_write_is_sent_if_the_lease_ends_while_it_waits
    last_turn = test_no_byte_of_a_write_is_sent_if_the_lease_ends_in_its_last_turn
    rest = test_the_rest_of_a_write_is_not_sent_after_the_lease_has_ended
    encrypted = stage is for_the_handshake
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(waits(stage, monkeypatch, certificate))
        runner.run(last_turn())
        runner.run(rest(encrypted, monkeypatch, certificate))
