"""Answers that are read piece by piece, on connections that carry later requests."""

import asyncio
import math
from typing import Any

import pytest

from controller_manager.client.rest.errors import TransportError
from controller_manager.client.wire.answers import Head
from controller_manager.client.wire.connection import Connection
from controller_manager.client.wire.pool import Pool
from controller_manager.client.wire.streams import ConnectionStream

pytestmark = pytest.mark.looptime

KEY = object()
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Socket:
    """A transport of the event loop, which only remembers whether it reads."""

    def __init__(self) -> None:
        self.reads = True

    def write(self, data: bytes) -> None:
        """Take bytes."""

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def abort(self) -> None:
        self.reads = False


class Later:
    """The receiver of a later request on the connection."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def head_received(self, head: Head) -> None:
        """Take the head."""

    def data_received(self, data: bytes) -> None:
        """Take a part."""

    def ended(self) -> None:
        """Learn of the end."""

    def failed(self, error: Exception) -> None:
        self.error = error


def failed(_: Connection, error: BaseException) -> TransportError:
    return TransportError(str(error))


def opened(socket: Any) -> tuple[Pool, Connection, ConnectionStream]:
    pool = Pool(asyncio.get_running_loop())
    connection = Connection(pool, KEY)
    connection.connection_made(socket)
    pool.add(connection)
    stream = ConnectionStream(pool, connection, 60.0, failed)
    connection.send(b"", stream, is_head=False)
    return pool, connection, stream


async def send_later(pool: Pool) -> Later:
    """Send another request on the connection, which has five seconds."""
    later = Later()
    connection = pool.take(KEY)
    assert connection is not None
    connection.send(b"", later, is_head=False)
    pool.set_deadline(connection, asyncio.get_running_loop().time() + 5)
    return later


async def test_the_end_of_a_stream_leaves_the_next_request_its_time() -> None:
    """The connection may carry it before the reader of the stream has its turn."""
    pool, connection, stream = opened(Socket())
    connection.data_received(CHUNKED)
    await stream.begin(math.inf)

    async def read() -> list[bytes]:
        return [each async for each in stream.chunks()]

    reading = asyncio.create_task(read())
    await asyncio.sleep(1)
    connection.data_received(b"0\r\n\r\n")
    later = await send_later(pool)
    assert await reading == []
    await asyncio.sleep(6)
    assert isinstance(later.error, TimeoutError)


async def test_a_whole_answer_to_a_stream_leaves_the_next_request_its_time() -> None:
    """A refused watch is answered at once, head and body together."""
    pool, connection, stream = opened(Socket())
    beginning = asyncio.create_task(stream.begin(math.inf))
    await asyncio.sleep(1)
    connection.data_received(b"HTTP/1.1 410 Gone\r\nContent-Length: 2\r\n\r\n{}")
    later = await send_later(pool)
    await beginning
    await asyncio.sleep(6)
    assert isinstance(later.error, TimeoutError)


async def test_a_connection_that_waited_for_a_slow_reader_reads_the_next_answer() -> (
    None
):
    """Even if nothing reads the rest of the stream."""
    socket = Socket()
    pool, connection, stream = opened(socket)
    connection.data_received(CHUNKED)
    await stream.begin(math.inf)
    size = 2 << 20
    connection.data_received(b"%x\r\n%b\r\n" % (size, b"x" * size))
    reads = [socket.reads]
    connection.data_received(b"0\r\n\r\n")  # TLS had it decrypted already
    await stream.close()
    await send_later(pool)
    reads.append(socket.reads)
    assert reads == [False, True]
    pool.close()
