"""Answers as bytes, and those of kubernetes_asyncio."""

import asyncio
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from kubernetes_asyncio import client, watch

from controller_manager.client.rest.client import Client
from controller_manager.client.wire.answers import Head, MalformedAnswer, parse_head
from controller_manager.client.wire.connection import Connection, ConnectionBroken
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from controller_manager.devcluster.cluster import ClusterOptions, DevCluster


@dataclass
class Collected:
    """An answer, as its receiver got it, and the fate of its connection."""

    heads: list[Head] = field(default_factory=list)
    body: bytes = b""
    is_whole: bool = False
    error: Exception | None = None
    fate: str = "in use"

    def head_received(self, head: Head) -> None:
        self.heads.append(head)

    def data_received(self, data: bytes) -> None:
        self.body += data

    def ended(self) -> None:
        self.is_whole = True

    def failed(self, error: Exception) -> None:
        self.error = error

    def freed(self, connection: Connection) -> None:
        del connection
        self.fate = "free"

    def lost(self, connection: Connection) -> None:
        del connection
        self.fate = "closed"


class Sink(asyncio.Transport):
    def write(self, data: bytes | bytearray | memoryview) -> None:
        del data

    def abort(self) -> None:
        pass


def received(
    data: bytes, cuts: tuple[int, ...] = (), *, is_head: bool = False, eof: bool = False
) -> Collected:
    """Return the answer in `data`, which arrives in parts that end at the `cuts`."""
    collected = Collected()
    connection = Connection(collected, None)
    connection.connection_made(Sink())
    connection.send(b"", collected, is_head=is_head)
    ends = sorted({min(each, len(data)) for each in cuts} | {len(data)})
    begin = 0
    for end in ends:
        if end > begin and not connection.is_closed:
            connection.data_received(data[begin:end])
        begin = end
    if eof:
        connection.eof_received()
    return collected


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
SIZED = HEAD + b"Content-Length: 5\r\n\r\nhello"
CHUNKED = (
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    b"3;ext=1\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
)
CUTS = st.lists(st.integers(0, 200), max_size=8).map(tuple)


@given(st.sampled_from([SIZED, CHUNKED]), CUTS)
def test_an_answer_is_the_same_however_its_bytes_are_cut(
    data: bytes, cuts: tuple[int, ...]
) -> None:
    got = received(b"HTTP/1.1 100 Continue\r\n\r\n" + data, cuts)
    assert (got.body, got.is_whole, got.error, got.fate) == (
        b"hello",
        True,
        None,
        "free",
    )
    assert [each.status for each in got.heads] == [200]


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=6), CUTS)
def test_chunks_hold_any_bytes(chunks: list[bytes], cuts: tuple[int, ...]) -> None:
    data = HEAD + b"Transfer-Encoding: Chunked\r\n\r\n"
    data += b"".join(b"%X\r\n%b\r\n" % (len(each), each) for each in chunks)
    got = received(data + b"0\r\n\r\n", tuple(cut * 7 for cut in cuts))
    assert (got.body, got.is_whole, got.error) == (b"".join(chunks), True, None)


@pytest.mark.parametrize(
    ("data", "is_head", "eof", "body", "fate"),
    [
        (HEAD + b"\r\nrest", False, True, b"rest", "closed"),
        (HEAD + b"Content-Length: 5\r\n\r\n", True, False, b"", "free"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", False, False, b"", "free"),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", False, False, b"", "free"),
        (HEAD + b"Content-Length: 1, 1\r\n\r\na", False, False, b"a", "free"),
        (
            HEAD + b"Connection: Close\r\nContent-Length: 1\r\n\r\na",
            False,
            False,
            b"a",
            "closed",
        ),
        (
            b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na",
            False,
            False,
            b"a",
            "closed",
        ),
    ],
)
def test_an_answer_ends_where_its_head_says(
    data: bytes, is_head: bool, eof: bool, body: bytes, fate: str
) -> None:
    got = received(data, is_head=is_head, eof=eof)
    assert (got.body, got.is_whole, got.error, got.fate) == (body, True, None, fate)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"SSH-2.0\r\n\r\n", "not the first line of an answer: 'SSH-2.0'"),
        (b"HTTP/2 200\r\n\r\n", "not the first line of an answer: 'HTTP/2 200'"),
        (b"HTTP/1.1 99 x\r\n\r\n", "not the first line of an answer: 'HTTP/1.1 99 x'"),
        (b"HTTP/1.1 101 x\r\n\r\n", "an answer with the status 101"),
        (HEAD + b" folded\r\n\r\n", "not a header: ' folded'"),
        (HEAD + b"Name : x\r\n\r\n", "not a header: 'Name : x'"),
        (HEAD + b"no colon\r\n\r\n", "not a header: 'no colon'"),
        (HEAD + b"Content-Length: -1\r\n\r\n", "content length '-1'"),
        (HEAD + b"Content-Length: 1, 2\r\n\r\n", "content length '1, 2'"),
        (HEAD + b"Content-Length: %b\r\n\r\n" % (b"9" * 5000), "content length '99"),
        (HEAD + b"Transfer-Encoding: x\r\n\r\n", "unknown transfer encoding 'x'"),
        (SIZED + b"more", "bytes after the end of the answer"),
        (CHUNKED + b"more", "bytes after the end of the answer"),
        (CHUNKED.replace(b"3;", b"0x3;"), "not the size of a chunk: b'0x3;ext=1'"),
        (CHUNKED.replace(b"3;", b";"), "not the size of a chunk: b';ext=1'"),
        (CHUNKED.replace(b"3;", b"f" * 16 + b";"), "not the size of a chunk: b'fff"),
        (CHUNKED.replace(b"3;", b"2;"), "a chunk that is longer than its size"),
        (b"x" * 65537, "a head of more than 65536 bytes"),
        (
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 65537,
            "a chunk without a size",
        ),
    ],
)
def test_a_malformed_answer_closes_the_connection(data: bytes, message: str) -> None:
    got = received(data)
    assert isinstance(got.error, MalformedAnswer)
    assert re.match(re.escape(message), str(got.error))
    assert (got.is_whole, got.fate) == (False, "closed")


@pytest.mark.parametrize("data", [b"", HEAD, SIZED[:-1], CHUNKED[:-2]])
def test_an_answer_that_is_cut_off_is_an_error(data: bytes) -> None:
    got = received(data, eof=True)
    assert isinstance(got.error, ConnectionBroken)
    assert (got.is_whole, got.fate) == (False, "closed")


def test_bytes_on_an_idle_connection_close_it() -> None:
    """A request that came next would take them for its answer."""
    collected = Collected()
    connection = Connection(collected, None)
    connection.connection_made(Sink())
    connection.data_received(SIZED)
    assert (collected.heads, collected.fate) == ([], "closed")


def test_headers_of_one_name_are_joined_and_names_are_lower_case() -> None:
    head = parse_head(b"HTTP/1.1 200 OK\r\nWarning: a\r\nDate:  now \r\nwarning:b")
    expected = {"warning": "a, b", "date": "now"}
    assert head == Head(200, expected, keeps_alive=True, reason="OK")


@pytest.mark.parametrize("line", ["no header", ": no name", "spaced : x", " folded: x"])
def test_a_line_that_is_no_header_is_named(line: str) -> None:
    message = f"not a header: {line!r}"
    with pytest.raises(MalformedAnswer, match=re.escape(message)):
        parse_head(f"HTTP/1.1 200 OK\r\n{line}".encode())


@pytest_asyncio.fixture
async def cluster() -> AsyncGenerator[DevCluster, None]:
    async with DevCluster(ClusterOptions(nodes=0), SystemClock()) as made:
        yield made


async def test_code_for_kubernetes_asyncio_runs_over_our_connections(
    cluster: DevCluster,
) -> None:
    transport = HTTPTransport(cluster.credentials(), "census/v1")
    core: Any = client.CoreV1Api(Client(transport, SystemClock()).api_client())
    names: list[str] = []
    changed = asyncio.Event()

    async def follow() -> None:
        async for event in watch.Watch().stream(core.list_namespace):
            names.append(event["object"].metadata.name)
            if names[-1] == "shop":
                changed.set()

    following = asyncio.create_task(follow())
    try:
        await core.create_namespace({"metadata": {"name": "shop"}})
        await changed.wait()
        listed = await core.list_namespace()
        assert {each.metadata.name for each in listed.items} == set(names)
        (managed,) = (await core.read_namespace("shop")).metadata.managed_fields
        assert managed.manager == "census"
    finally:
        following.cancel()
        await asyncio.wait([following])
        await transport.close()
