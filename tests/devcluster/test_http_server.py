"""Requests over real connections: order, streams, slow clients, and the end."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster import http_server
from controller_manager.devcluster.http_server import (
    Answer,
    Answering,
    ConnectionCutError,
    HTTPServer,
)
from controller_manager.devcluster.inmemory import StreamingResponse
from tests.clusters import Cluster

Link = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join((f"GET {path} HTTP/1.1", "Host: x", *headers, "", "")).encode()


async def echo(request: Request) -> Answer:
    """Answer with the path of the request."""
    return Response(200, {"content-type": "text/plain"}, request.path.encode())


@asynccontextmanager
async def serving(answered: Answering) -> AsyncIterator[HTTPServer]:
    """Run a server that answers with `answered`; yield it."""

    async def ours(request: Request, answer: Answering) -> Answer:
        del answer
        return await answered(request)

    server = HTTPServer(Cluster().server, 0, None, intercept=ours)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def connected(answered: Answering) -> AsyncIterator[Link]:
    """Yield a connection to a server that answers with `answered`."""
    async with serving(answered) as server, linked(server) as link:
        yield link


@asynccontextmanager
async def linked(server: HTTPServer) -> AsyncIterator[Link]:
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        async with asyncio.timeout(10):
            yield reader, writer
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


async def head_from(reader: asyncio.StreamReader) -> list[str]:
    head = await reader.readuntil(b"\r\n\r\n")
    return head.decode().split("\r\n")[:-2]


async def body_from(reader: asyncio.StreamReader) -> str:
    """Return the body of the next answer, which has a length."""
    lines = await head_from(reader)
    [length] = [each for each in lines if each.lower().startswith("content-length")]
    return (await reader.readexactly(int(length.partition(":")[2]))).decode()


class Chunks(StreamingResponse):
    """A stream of chunks that the test sends."""

    def __init__(self) -> None:
        super().__init__(self._sent(), {"content-type": "text/plain"})
        self.queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.taken = 0
        self.closed = asyncio.Event()

    async def _sent(self) -> AsyncGenerator[bytes, None]:
        while (chunk := await self.queue.get()) is not None:
            if isinstance(chunk, Exception):
                raise chunk
            self.taken += 1
            yield chunk

    async def close(self) -> None:
        self.closed.set()

    async def answer(self, request: Request) -> Answer:
        return await echo(request) if request.path == "/other" else self


async def test_requests_that_come_together_are_answered_one_after_the_other() -> None:
    """In their order, although the first one takes longer."""
    running: list[str] = []

    async def slow(request: Request) -> Answer:
        running.append(request.path)
        for _ in range(20 if request.path == "/a" else 1):
            await asyncio.sleep(0)
        assert running == [request.path]
        return await echo(Request("GET", running.pop()))

    async with connected(slow) as (reader, writer):
        writer.write(get("/a") + get("/b")[:10])
        assert await body_from(reader) == "/a"
        writer.write(get("/b")[10:] + get("/c"))
        assert [await body_from(reader) for _ in "bc"] == ["/b", "/c"]


async def test_a_request_has_its_query_and_its_headers_as_they_were_meant() -> None:
    found = []

    async def keep(request: Request) -> Answer:
        found.append(request)
        return await echo(request)

    path = "/api/v1/a%2Fb%20c/d?x=1&y=a%3D+b&x=2&z"
    several = [f"X-Group: {number}" for number in range(1000)]
    async with connected(keep) as (reader, writer):
        writer.write(get(path, "X-Two:\t one \t", "x-two: and more", *several))
        await body_from(reader)
    headers = {
        "host": "x",
        "x-two": "one\nand more",
        "x-group": "\n".join(map(str, range(1000))),
    }
    query = (("x", "1"), ("y", "a= b"), ("x", "2"), ("z", ""))
    assert found == [Request("GET", "/api/v1/a/b c/d", query, headers)]


async def test_each_chunk_of_a_stream_is_sent_at_once() -> None:
    """Also the head before the first one; the connection serves another request."""
    stream = Chunks()
    async with connected(stream.answer) as (reader, writer):
        writer.write(get("/a"))
        lines = await head_from(reader)
        names = {each.partition(":")[0].lower() for each in lines[1:]}
        assert lines[0] == "HTTP/1.1 200 OK"
        assert names == {
            *("audit-id", "cache-control", "content-type", "date"),
            "transfer-encoding",
        }
        for chunk in (b"one", b"x" * 20):
            stream.queue.put_nowait(chunk)
            sent = b"%x\r\n%b\r\n" % (len(chunk), chunk)
            assert await reader.readexactly(len(sent)) == sent
        stream.queue.put_nowait(b"")
        stream.queue.put_nowait(None)
        assert await reader.readexactly(5) == b"0\r\n\r\n"
        assert stream.closed.is_set()
        writer.write(get("/other"))
        assert await body_from(reader) == "/other"


async def test_a_stream_waits_for_a_client_that_does_not_read() -> None:
    stream = Chunks()
    for _ in range(1000):
        stream.queue.put_nowait(b"x" * 100_000)
    async with connected(stream.answer) as (reader, writer):
        writer.write(get("/a"))
        await head_from(reader)
        for _ in range(2000):
            await asyncio.sleep(0)
        assert 0 < stream.taken < 500
        stream.queue.put_nowait(None)
        while stream.taken < 1000:
            await reader.read(1_000_000)


async def test_the_answer_ends_with_its_connection() -> None:
    """A stream is closed when its client has gone."""
    stream = Chunks()
    async with connected(stream.answer) as (reader, writer):
        writer.write(get("/a"))
        await head_from(reader)
        writer.close()
        await stream.closed.wait()


@pytest.mark.parametrize("ends", ["before", "within"])
async def test_a_connection_can_be_cut(ends: str) -> None:
    stream = Chunks()

    async def cut(request: Request) -> Answer:
        if ends == "before":
            raise ConnectionCutError
        return await stream.answer(request)

    async with connected(cut) as (reader, writer):
        writer.write(get("/a"))
        if ends == "within":
            await head_from(reader)
            stream.queue.put_nowait(ConnectionCutError())
        assert await reader.read() == b""


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
    async with connected(fail) as (reader, writer):
        writer.write(get("/a"))
        received = await reader.read()
    assert [each["message"] for each in reported] == ["A request could not be answered"]
    status = b"200 OK" if where == "stream" else b"500 Internal Server Error"
    assert received.startswith(b"HTTP/1.1 %b\r\n" % status)
    assert not received.endswith(b"0\r\n\r\n")
    assert b"three" not in received


async def test_an_answer_without_a_body_has_no_length() -> None:
    """A client would wait for it."""

    async def unchanged(_: Request) -> Answer:
        return Response(304, {"etag": "x"})

    async with connected(unchanged) as (reader, writer):
        writer.write(get("/a", "Audit-ID: 1"))
        first, *lines = await head_from(reader)
    assert first == "HTTP/1.1 304 Not Modified"
    names = {each.partition(":")[0].lower() for each in lines}
    assert names == {"cache-control", "audit-id", "date", "etag"}


async def test_a_server_that_closes_lets_requests_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Idle connections are closed at once; a stream gets no more than the patience."""
    monkeypatch.setattr(http_server, "_SHUTDOWN_PATIENCE", 0.05)
    stream, closing, goes_on = Chunks(), asyncio.Event(), asyncio.Event()

    async def some(request: Request) -> Answer:
        if request.path == "/busy":
            closing.set()
            await goes_on.wait()
            return await echo(request)
        return await stream.answer(request)

    async with (
        serving(some) as server,
        linked(server) as (idle, idle_writer),
        linked(server) as (busy, busy_writer),
        linked(server) as (streaming, streaming_writer),
    ):
        idle_writer.write(get("/other"))
        assert await body_from(idle) == "/other"
        streaming_writer.write(get("/a"))
        await head_from(streaming)
        busy_writer.write(get("/busy"))
        await closing.wait()
        ending = asyncio.create_task(server.close())
        assert await idle.read() == b""
        assert not stream.closed.is_set()
        goes_on.set()
        assert await body_from(busy) == "/busy"
        await ending
        assert stream.closed.is_set()
