"""A transport that closes takes all with it: connections, dials and requests."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from controller_manager.client.identity.credentials import Credentials
from controller_manager.client.identity.tls import TLSMaterial
from controller_manager.client.rest.errors import NotSent, TransportError
from controller_manager.client.rest.transport import Request
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from controller_manager.serving.certificates import self_signed
from tests.http.servers import listening

READ = Request("GET", "/api")
WRITE = Request("POST", "/api", body=b"{}")


class Server:
    """Accepts connections; reads what comes, and answers nothing but its handshake."""

    def __init__(self) -> None:
        self.port = 0
        self.accepted = asyncio.Semaphore(0)
        self.received: list[bytes] = []
        """All that each connection has sent until its end."""
        self.ended = asyncio.Semaphore(0)

    @asynccontextmanager
    async def running(
        self, tls: ssl.SSLContext | None = None
    ) -> AsyncGenerator[None, None]:
        async with listening(self._serve, tls=tls) as self.port:
            yield

    async def _serve(
        self, reader: asyncio.StreamReader, _: asyncio.StreamWriter
    ) -> None:
        self.accepted.release()
        content = b""
        try:
            while data := await reader.read(65536):
                content += data
        finally:
            self.received.append(content)
            self.ended.release()


def transport_to(
    server: Server, host: str = "127.0.0.1", scheme: str = "http"
) -> HTTPTransport:
    url = f"{scheme}://{host}:{server.port}"
    tls = TLSMaterial(verify=False)
    return HTTPTransport(Credentials(url, clock=SystemClock(), tls=tls), "test")


async def closed_during(
    transport: HTTPTransport, request: Request, wait: Callable[[], Any]
) -> BaseException:
    """Close the transport while a request waits; return its error, without a delay."""
    running = asyncio.create_task(transport.request(request))
    await wait()
    async with asyncio.timeout(5):
        await transport.close()
        (error,) = await asyncio.gather(running, return_exceptions=True)
    assert isinstance(error, BaseException)
    return error


async def test_a_closed_transport_sends_nothing() -> None:
    """Not even a read, which a client sends twice."""
    server = Server()
    async with server.running():
        transport = transport_to(server)
        await transport.close()
        for request in (READ, WRITE):
            with pytest.raises(NotSent, match="the transport is closed"):
                await transport.request(request)
            with pytest.raises(NotSent, match="the transport is closed"):
                await transport.stream(request)
    assert server.received == []


async def test_a_close_ends_a_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name server may be slow; no connection is opened after it has answered."""
    asked, answer = asyncio.Event(), asyncio.Event()
    server = Server()

    async def look_up(_: str, port: int, **__: Any) -> list[Any]:
        asked.set()
        await answer.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    async with server.running():
        transport = transport_to(server, "api.test")
        error = await closed_during(transport, WRITE, asked.wait)
        answer.set()
        await asyncio.sleep(0)
    assert isinstance(error, NotSent)
    assert str(error).endswith("the transport is closed")
    assert server.received == []


async def test_a_handshake_ends_when_its_transport_closes() -> None:
    server = Server()
    async with server.running():
        transport = transport_to(server, scheme="https")
        error = await closed_during(transport, WRITE, server.accepted.acquire)
        async with asyncio.timeout(5):
            await server.ended.acquire()
    assert isinstance(error, NotSent)
    assert str(error).endswith("the transport is closed")
    (hello,) = server.received
    assert hello.startswith(b"\x16\x03")  # nothing but the beginning of a handshake


@pytest.mark.parametrize("turns", range(12))
async def test_a_connection_that_opens_too_late_is_closed(turns: int) -> None:
    """However many turns of the event loop have passed; the server sees its end."""
    server = Server()
    tls = self_signed("ca", ["127.0.0.1"]).ssl_context()
    async with server.running(tls if turns % 2 else None):
        transport = transport_to(server, scheme="https" if turns % 2 else "http")

        async def pass_turns() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        error = await closed_during(transport, WRITE, pass_turns)
        assert isinstance(error, TransportError)
        if isinstance(error, NotSent):
            assert [each for each in server.received if b"POST" in each] == []
        while server.accepted._value:
            await server.accepted.acquire()
            async with asyncio.timeout(5):
                await server.ended.acquire()


async def test_a_request_without_an_answer_ends_when_its_transport_closes() -> None:
    """It may have been carried out, so its error is not that of one never sent."""
    server = Server()
    async with server.running():
        transport = transport_to(server)
        error = await closed_during(transport, WRITE, server.accepted.acquire)
        async with asyncio.timeout(5):
            await server.ended.acquire()
    assert isinstance(error, TransportError)


def test_the_event_loop_of_the_daemon_closes_its_dials_too() -> None:
    """It is uvloop, which the other tests do not use."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test_a_closed_transport_sends_nothing())
        runner.run(test_a_handshake_ends_when_its_transport_closes())
        runner.run(test_a_request_without_an_answer_ends_when_its_transport_closes())
        for turns in range(12):
            runner.run(test_a_connection_that_opens_too_late_is_closed(turns))
