"""Large and compressed answers, and streams with a slow reader."""

import asyncio
import gzip
import random
import tracemalloc
import zlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from functools import cache

import pytest

from controller_manager.client.rest.errors import NotSent, TransportError
from controller_manager.client.rest.transport import Request
from controller_manager.client.wire.http import HTTPTransport
from tests.http.servers import connected, listening

MEGABYTE = 1 << 20


class Server:
    def __init__(self, *answer: bytes) -> None:
        self.answer = answer
        self.sent = 0
        self.seen: list[bytes] = []

    @asynccontextmanager
    async def transport(self) -> AsyncGenerator[HTTPTransport, None]:
        async with (
            listening(self._serve) as port,
            connected(f"http://127.0.0.1:{port}") as transport,
        ):
            yield transport

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            self.seen.append(head)
            for part in self.answer:
                writer.write(part)
                await writer.drain()
                self.sent += len(part)


def compressed(body: bytes) -> bytes:
    content = gzip.compress(body)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    return head % len(content) + content


@pytest.mark.parametrize("size", [10, 3 * MEGABYTE])
async def test_a_compressed_answer_is_decompressed(size: int) -> None:
    """API servers compress lists of more than 128 kB."""
    body = random.Random(size).randbytes(size)
    server = Server(compressed(body))
    async with server.transport() as transport:
        for _ in range(2):
            answer = await transport.request(Request("GET", "/api"))
            assert (answer.status, answer.body) == (200, body)
    assert b"\r\nAccept-Encoding: gzip" in server.seen[0]


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"


def chunked(content: bytes) -> bytes:
    return CHUNKED + b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(content), content)


async def body_of(transport: HTTPTransport, *, is_stream: bool) -> bytes:
    """Return the body of an answer, read at once or piece by piece."""
    request = Request("GET", "/api")
    if not is_stream:
        return (await transport.request(request)).body
    stream = await transport.stream(request)
    try:
        async with aclosing(stream.chunks()) as chunks:
            return b"".join([chunk async for chunk in chunks])
    finally:
        await stream.close()


@pytest.mark.parametrize("lacking", [1, 8, 12])
@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_compressed_body_that_is_cut_short_is_an_error_of_the_transport(
    lacking: int, is_stream: bool
) -> None:
    """Its framing is whole; a part of its checksum, of its size or more is missing."""
    server = Server(chunked(gzip.compress(b"a line\n" * 1000)[:-lacking]))
    async with server.transport() as transport:
        with pytest.raises(TransportError, match="ended before its content did") as cut:
            await body_of(transport, is_stream=is_stream)
    assert not isinstance(cut.value, NotSent)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_bytes_after_a_compressed_body_are_an_error(is_stream: bool) -> None:
    server = Server(chunked(gzip.compress(b"x") + b"rest"))
    async with server.transport() as transport:
        with pytest.raises(TransportError, match="after the end of the compressed"):
            await body_of(transport, is_stream=is_stream)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_body_without_bytes_needs_no_compression(is_stream: bool) -> None:
    """A proxy may leave the header of the body that it took away."""
    server = Server(chunked(b"").replace(b"0\r\n\r\n", b"", 1))
    async with server.transport() as transport:
        assert await body_of(transport, is_stream=is_stream) == b""


async def test_a_compression_that_no_request_asked_for_is_an_error() -> None:
    server = Server(compressed(b"x").replace(b"gzip", b"br"))
    async with server.transport() as transport:
        for is_stream in (False, True):
            with pytest.raises(TransportError, match="unknown content encoding 'br'"):
                await body_of(transport, is_stream=is_stream)


@contextmanager
def peak_of_memory(most: int) -> Iterator[None]:
    """Check that not more than `most` bytes are taken at any time."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most


@cache
def bomb() -> bytes:
    tool = zlib.compressobj(wbits=31)
    parts = [tool.compress(bytes(MEGABYTE)) for _ in range(64)]
    return b"".join([*parts, tool.flush()])


@pytest.mark.parametrize("most", [MEGABYTE, 64 * MEGABYTE - 1])
async def test_a_small_answer_cannot_become_a_large_one(most: int) -> None:
    """Each request says how large its answer may be."""
    server = Server(chunked(bomb()))
    async with server.transport() as transport:
        with (
            peak_of_memory(2 * most + 8 * MEGABYTE),
            pytest.raises(TransportError, match=f"more than {most} bytes"),
        ):
            await transport.request(Request("GET", "/api", largest_answer=most))


async def test_an_answer_without_compression_has_the_same_limit() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b"
    server = Server(answer % (1001, b"x" * 1001))
    async with server.transport() as transport:
        with pytest.raises(TransportError, match="more than 1000 bytes"):
            await transport.request(Request("GET", "/api", largest_answer=1000))
        request = Request("GET", "/api", largest_answer=1001)
        assert (await transport.request(request)).body == b"x" * 1001


async def test_a_stream_holds_a_piece_of_its_content_at_a_time() -> None:
    """A watch may bring any number of bytes, but not all at once."""
    server = Server(chunked(bomb()))
    async with server.transport() as transport:
        stream = await transport.stream(Request("GET", "/watch"))
        received = 0
        with peak_of_memory(16 * MEGABYTE):
            async with aclosing(stream.chunks()) as chunks:
                async for chunk in chunks:
                    received += len(chunk)
        await stream.close()
    assert received == 64 * MEGABYTE


async def test_a_body_that_is_no_gzip_is_an_error_of_the_transport() -> None:
    server = Server(compressed(b"x").replace(b"\x1f\x8b", b"\x00\x00"))
    async with server.transport() as transport:
        with pytest.raises(TransportError, match=r"GET /api at 127\.0\.0\.1:"):
            await transport.request(Request("GET", "/api"))


async def test_a_stream_may_be_compressed() -> None:
    server = Server(compressed(b"a line\n" * 1000))
    async with server.transport() as transport:
        stream = await transport.stream(Request("GET", "/watch"))
        body = b"".join([chunk async for chunk in stream.chunks()])
        await stream.close()
    assert body == b"a line\n" * 1000


async def test_a_slow_reader_of_a_stream_makes_the_server_wait() -> None:
    """Otherwise all events of a busy cluster would wait in memory."""
    part = b"%x\r\n%b\r\n" % (MEGABYTE, b"x" * MEGABYTE)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    server = Server(head, *[part] * 64, b"0\r\n\r\n")
    async with server.transport() as transport:
        stream = await transport.stream(Request("GET", "/watch"))
        before = -1
        while server.sent > before:
            before = server.sent
            await asyncio.sleep(0.1)
        assert server.sent < 32 * MEGABYTE
        async with aclosing(stream.chunks()) as chunks:
            received = sum([len(chunk) async for chunk in chunks])
        await stream.close()
    assert received == 64 * MEGABYTE


async def test_a_request_carries_the_headers_that_it_names() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    async with server.transport() as transport:
        query = (("labelSelector", "a=b,c in (d)"), ("limit", "1"))
        headers = {"accept": "application/json"}
        await transport.request(Request("GET", "/api/a b", query, headers))
        await transport.request(Request("POST", "/api", body=b"{}"))
        bad = {"accept": "a\r\nb: c"}
        with pytest.raises((TransportError, ValueError)):
            await transport.request(Request("GET", "/api", headers=bad))
    first, second = (each.decode().lower().split("\r\n") for each in server.seen)
    assert first[0] == (
        "get /api/a%20b?labelselector=a%3db%2cc%20in%20%28d%29&limit=1 http/1.1"
    )
    assert {"accept: application/json", "user-agent: test"} < set(first)
    assert {"content-length: 2", "user-agent: test"} < set(second)
