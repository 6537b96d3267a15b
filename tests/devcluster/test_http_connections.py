"""Connections with plain requests: order, streams, slow clients, and the end."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from controller_manager.client.transport import Request, Response
from controller_manager.devcluster.http_connections import (
    MOST_BYTES,
    Answer,
    ConnectionCutError,
    PlainConnection,
    PlainConnections,
)

pytestmark = pytest.mark.looptime

COMMON = {"audit-id": "1"}


def get(path: str) -> bytes:
    """Return the bytes of a plain request."""
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def ok(body: str) -> bytes:
    """Return the bytes of an answer."""
    head = f"HTTP/1.1 200 OK\r\naudit-id: 1\r\ncontent-length: {len(body)}\r\n\r\n"
    return (head + body).encode()


class Transport(asyncio.Transport):
    """A connection that keeps the written bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.calls: list[str] = []
        self.protocol: asyncio.BaseProtocol | None = None

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def is_closing(self) -> bool:
        return bool({"close", "abort"} & {*self.calls})

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol


class Usual(asyncio.Protocol):
    """The protocol for requests that are not plain."""

    def __init__(self) -> None:
        self.transport: asyncio.BaseTransport | None = None
        self.data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data


class Link:
    """A connection to a server that answers with `answer`, and its two protocols."""

    def __init__(
        self,
        answer: Callable[[Request], Awaitable[Answer]],
        server: PlainConnections | None = None,
    ) -> None:
        self.usual = Usual()
        self.transport = Transport()

        async def respond(request: Request, _: object) -> tuple[Answer, dict[str, str]]:
            return await answer(request), COMMON

        self.server = server or PlainConnections(respond)
        self.plain = PlainConnection(self.server, lambda: self.usual)
        self.plain.connection_made(self.transport)

    async def receive(self, data: bytes) -> None:
        """Let the client send bytes, and wait until nothing happens any more."""
        self.plain.data_received(data)
        await settled()


async def settled() -> None:
    """Let all tasks run until they wait."""
    for _ in range(50):
        await asyncio.sleep(0)


async def echo(request: Request) -> Answer:
    """Answer with the path of the request."""
    return Response(200, {}, request.path.encode())


class Chunks:
    """A stream of chunks that the test sends."""

    status = 200

    def __init__(self) -> None:
        self.headers = {"content-type": "text/plain"}
        self.queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.is_closed = False

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while (chunk := await self.queue.get()) is not None:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    async def close(self) -> None:
        self.is_closed = True

    async def answer(self, _: Request) -> Answer:
        return self


async def test_requests_that_come_together_are_answered_one_after_the_other() -> None:
    """In their order, although the first one takes longer."""
    running: list[str] = []

    async def slow(request: Request) -> Answer:
        running.append(request.path)
        await asyncio.sleep(1 if request.path == "/a" else 0)
        running.remove(request.path)
        assert not running
        return await echo(request)

    link = Link(slow)
    await link.receive(get("/a") + get("/b")[:10])
    await link.receive(get("/b")[10:] + get("/c"))
    assert link.transport.written == b""
    await asyncio.sleep(2)
    assert link.transport.written == ok("/a") + ok("/b") + ok("/c")


@pytest.mark.parametrize("rest", [b"HEAD / HTTP/1.1\r\n\r\n", b"GET / HT", b"\x16\x03"])
async def test_all_other_requests_go_to_the_other_protocol(rest: bytes) -> None:
    """With its connection, once all requests before it are answered."""
    link = Link(echo)
    await link.receive(get("/a") + rest)
    assert link.transport.written == ok("/a")
    assert link.transport.protocol is link.usual
    assert (link.usual.transport, link.usual.data) == (link.transport, rest)
    assert link.server.transports() == []


async def test_a_client_that_sends_without_reading_is_not_read_further() -> None:
    """Neither while a request is answered, nor while its answers are not read."""
    link = Link(echo)
    link.plain.data_received(get("/a"))
    link.plain.data_received(get("/b") * (MOST_BYTES // 20))
    assert link.transport.calls == ["pause"]
    link.plain.pause_writing()
    await settled()
    assert link.transport.written == ok("/a")
    link.plain.resume_writing()
    await settled()
    assert link.transport.written.startswith(ok("/a") + ok("/b") * 3)
    assert link.transport.calls == ["pause", "resume"]
    link.plain.connection_lost(None)


async def test_a_stream_is_sent_in_chunks_and_the_connection_stays() -> None:
    """The next request comes after its end."""
    stream = Chunks()
    link = Link(stream.answer)
    await link.receive(get("/a"))
    for chunk in (b"one", b"", b"x" * 20, None):
        stream.queue.put_nowait(chunk)
    await settled()
    head, _, body = link.transport.written.partition(b"\r\n\r\n")
    names = [each.partition(b":")[0] for each in head.split(b"\r\n")]
    assert names == [
        b"HTTP/1.1 200 OK",
        *(b"audit-id", b"content-type", b"transfer-encoding"),
    ]
    assert body == b"3\r\none\r\n14\r\n" + b"x" * 20 + b"\r\n0\r\n\r\n"
    assert (stream.is_closed, link.transport.calls) == (True, [])


async def test_a_stream_waits_for_a_client_that_does_not_read() -> None:
    """It takes no more events meanwhile."""
    stream = Chunks()
    link = Link(stream.answer)
    await link.receive(get("/a"))
    link.plain.pause_writing()
    for chunk in (b"one", b"two"):
        stream.queue.put_nowait(chunk)
    await settled()
    assert link.transport.written.endswith(b"3\r\none\r\n")
    link.plain.resume_writing()
    await settled()
    assert link.transport.written.endswith(b"3\r\none\r\n3\r\ntwo\r\n")
    link.plain.connection_lost(None)
    await settled()


async def test_the_answer_ends_with_its_connection() -> None:
    """A stream is closed when its client has gone."""
    stream = Chunks()
    link = Link(stream.answer)
    await link.receive(get("/a"))
    link.plain.connection_lost(None)
    await settled()
    assert (stream.is_closed, link.server.transports()) == (True, [])


@pytest.mark.parametrize("ends", ["before", "within"])
async def test_a_connection_can_be_cut(ends: str) -> None:
    """Instead of an answer, and within a stream."""
    stream = Chunks()
    stream.queue.put_nowait(ConnectionCutError())

    async def cut(request: Request) -> Answer:
        if ends == "before":
            raise ConnectionCutError
        return await stream.answer(request)

    link = Link(cut)
    await link.receive(get("/a"))
    assert link.transport.calls == ["abort"]


@pytest.mark.parametrize("where", ["answer", "header", "stream"])
async def test_a_defect_is_reported_and_ends_its_connection(where: str) -> None:
    """With a 500 if nothing else was sent."""
    stream = Chunks()
    stream.queue.put_nowait(ZeroDivisionError())

    async def fail(request: Request) -> Answer:
        if where == "answer":
            raise ZeroDivisionError
        if where == "header":
            return Response(200, {"x": "one\ntwo: three"})
        return await stream.answer(request)

    reported: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    link = Link(fail)
    await link.receive(get("/a"))
    assert len(reported) == 1
    if where == "stream":
        assert link.transport.calls == ["abort"]
    else:
        assert link.transport.calls == ["close"]
        assert link.transport.written == (
            b"HTTP/1.1 500 Internal Server Error\r\n"
            b"connection: close\r\ncontent-length: 0\r\n\r\n"
        )


async def test_an_answer_without_a_body_has_no_length() -> None:
    """A client would wait for it."""

    async def unchanged(_: Request) -> Answer:
        return Response(304, {"etag": "x"})

    link = Link(unchanged)
    await link.receive(get("/a"))
    assert link.transport.written == (
        b"HTTP/1.1 304 Not Modified\r\naudit-id: 1\r\netag: x\r\n\r\n"
    )


async def test_a_server_that_closes_lets_requests_end() -> None:
    """Idle connections are closed at once; a stream gets no more than the patience."""
    stream = Chunks()

    async def some(request: Request) -> Answer:
        if request.path == "/stream":
            return stream
        await asyncio.sleep(0.3)
        return await echo(request)

    idle = Link(some)
    busy, streaming = Link(some, idle.server), Link(some, idle.server)
    busy.plain.data_received(get("/a"))
    streaming.plain.data_received(get("/stream"))
    await settled()
    await idle.server.close(0.5)
    assert idle.transport.calls == ["close"]
    assert (busy.transport.written, busy.transport.calls) == (ok("/a"), ["close"])
    assert (stream.is_closed, asyncio.get_running_loop().time()) == (True, 0.5)
    late = Transport()
    PlainConnection(idle.server, Usual).connection_made(late)
    assert late.calls == ["abort"]
