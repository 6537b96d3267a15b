"""Requests through proxies that refuse, break or say nothing."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from traceback import format_exception

import pytest
import uvloop

from controller_manager.client.identity.tls import TLSMaterial
from controller_manager.client.rest.errors import (
    NotSent,
    RequestTimeout,
    TransportError,
)
from controller_manager.client.rest.transport import Request
from controller_manager.client.wire import dialing
from controller_manager.client.wire.http import HTTPTransport
from tests.http.servers import Serve, connected, listening

WRITE = Request("POST", "/api", body=b"{}", timeout=20)
PASSWORD = "s3cret"


class Proxy:
    """A proxy with one behaviour after the head of CONNECT; remembers the requests."""

    def __init__(self, behaviour: Serve) -> None:
        self.port = 0
        self.heads: list[bytes] = []
        self.asked = asyncio.Semaphore(0)
        self.ended = asyncio.Semaphore(0)
        self._behaviour = behaviour

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[HTTPTransport, None]:
        """Run, and yield a transport that goes through this proxy with a password."""
        async with (
            listening(self._serve) as self.port,
            connected(
                "https://api.test:6443",
                tls=TLSMaterial(verify=False),
                token="of-the-server",
                proxy=self.url,
            ) as transport,
        ):
            yield transport

    @property
    def url(self) -> str:
        return f"http://jane:{PASSWORD}@127.0.0.1:{self.port}"

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            self.asked.release()
            await self._behaviour(reader, writer)
        finally:
            writer.close()
            self.ended.release()


def answering(answer: bytes) -> Serve:
    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    return behave


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while await reader.read(65536):
        continue


async def failure(transport: HTTPTransport, request: Request = WRITE) -> TransportError:
    """Return the error of a request; it and its causes show no password."""
    with pytest.raises(TransportError) as caught:
        await transport.request(request)
    assert PASSWORD not in "".join(format_exception(caught.value))
    return caught.value


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            "answered 407 Proxy Authentication Required",
        ),
        (b"HTTP/1.1 503 %b\r\n\r\n" % (b"x" * 500), "answered 503 " + "x" * 80),
        (b"HTTP/1.1 403 \x1b[2J\r\n\r\n", "answered 403 "),
        (b"", "gave no connection: it closed the connection"),
        (
            b"SSH-2.0-OpenSSH\r\n\r\n",
            "gave no connection: not the first line of an answer: 'SSH-2.0-OpenSSH'",
        ),
        (
            b"HTTP/1.1 200 OK\r\nVia: " + b"x" * 70_000,
            "gave no connection: a head of more than 65536 bytes",
        ),
    ],
)
async def test_a_proxy_that_refuses_is_named_and_nothing_was_sent(
    answer: bytes, why: str
) -> None:
    """So the write may be sent again, and the rate limit does not count it."""
    proxy = Proxy(answering(answer))
    async with proxy.running() as transport:
        error = await failure(transport)
    shown = f"http://127.0.0.1:{proxy.port}"
    assert type(error) is NotSent
    assert str(error) == (f"POST /api at api.test:6443: the proxy {shown} {why}")
    (head,) = proxy.heads
    assert head.startswith(b"CONNECT api.test:6443 HTTP/1.1\r\n")
    assert b"of-the-server" not in head  # the token is for the API server
    assert b"Proxy-Authorization: Basic amFuZTpzM2NyZXQ=\r\n" in head


async def test_a_proxy_that_cannot_be_reached_is_named() -> None:
    """The address of the API server may well be reachable."""
    proxy = Proxy(silent)
    async with proxy.running() as transport:
        pass
    async with connected("https://api.test:6443", proxy=proxy.url) as transport:
        error = await failure(transport)
    assert type(error) is NotSent
    assert str(error) == (
        f"POST /api at api.test:6443: the proxy http://127.0.0.1:{proxy.port}: "
        "cannot connect: Connection refused"
    )


@pytest.mark.parametrize("behaviour", [silent, deaf])
async def test_a_proxy_that_never_answers_is_given_up_as_a_server_is(
    behaviour: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the time of the request is over, and nothing of it was sent."""
    monkeypatch.setattr(dialing, "CONNECT_TIMEOUT", 0.2)
    proxy = Proxy(behaviour)
    async with proxy.running() as transport:
        error = await failure(transport)
        async with asyncio.timeout(5):
            await proxy.ended.acquire()  # the connection is closed
    assert type(error) is NotSent
    assert f"the proxy http://127.0.0.1:{proxy.port}: cannot connect" in str(error)


async def test_a_request_through_a_silent_proxy_ends_at_its_own_deadline() -> None:
    proxy = Proxy(silent)
    async with proxy.running() as transport:
        error = await failure(transport, Request("GET", "/api", timeout=0.2))
        async with asyncio.timeout(5):
            await proxy.ended.acquire()
    assert isinstance(error, RequestTimeout)


@pytest.mark.parametrize("behaviour", [silent, deaf])
async def test_a_dial_through_a_proxy_ends_when_its_transport_closes(
    behaviour: Serve,
) -> None:
    proxy = Proxy(behaviour)
    async with proxy.running() as transport:
        running = asyncio.create_task(transport.request(WRITE))
        await proxy.asked.acquire()
        async with asyncio.timeout(5):
            await transport.close()
            (error,) = await asyncio.gather(running, return_exceptions=True)
            await proxy.ended.acquire()
    assert type(error) is NotSent
    assert str(error) == "POST /api at api.test:6443: the transport is closed"


def test_proxies_are_the_same_on_the_event_loop_of_the_daemon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is uvloop, which the other tests do not use."""
    never = test_a_proxy_that_never_answers_is_given_up_as_a_server_is
    closes = test_a_dial_through_a_proxy_ends_when_its_transport_closes
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for behaviour in (silent, deaf):
            runner.run(closes(behaviour))
            runner.run(never(behaviour, monkeypatch))


async def test_a_proxy_of_a_server_without_tls_gets_its_user_in_each_request() -> None:
    """There is no CONNECT; the proxy takes the header away."""
    proxy = Proxy(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
    async with (
        proxy.running(),
        connected("http://api.test:8080", proxy=proxy.url) as transport,
    ):
        answer = await transport.request(WRITE)
    assert answer.status == 200
    (head,) = proxy.heads
    assert head.startswith(b"POST http://api.test:8080/api HTTP/1.1\r\n")
    assert head.count(b"Proxy-Authorization: Basic amFuZTpzM2NyZXQ=\r\n") == 1
