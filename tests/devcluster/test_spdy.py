"""Port-forward over SPDY, with a client of this test and programs on this machine."""

import asyncio
import struct
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from controller_manager.devcluster.proxying import Address
from controller_manager.devcluster.spdy import DICTIONARY
from controller_manager.devcluster.streaming import (
    FORWARD_STREAMS,
    AddressOf,
    PortError,
    forwarding,
)


def test_the_dictionary_is_that_of_the_specification() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


class Pipe:
    """Both ends of a connection in memory; the server's is a Connection."""

    def __init__(self) -> None:
        self.to_server: asyncio.Queue[bytes] = asyncio.Queue()
        self.to_client: asyncio.Queue[bytes] = asyncio.Queue()

    async def receive(self) -> bytes:
        return await self.to_server.get()

    async def send(self, data: bytes) -> None:
        await self.to_client.put(data)


class Client:
    """A client that opens streams, and reads frames."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self.replies: list[int] = []

    def _send(self, data: bytes) -> None:
        self._pipe.to_server.put_nowait(data[:5])
        self._pipe.to_server.put_nowait(data[5:])

    def open(self, number: int, **headers: str) -> None:
        """Open a stream."""
        block = struct.pack(">I", len(headers))
        for pair in headers.items():
            for text in pair:
                block += struct.pack(">I", len(text)) + text.encode()
        compressed = self._deflate.compress(block)
        compressed += self._deflate.flush(zlib.Z_SYNC_FLUSH)
        payload = struct.pack(">IIH", number, 0, 0) + compressed
        self._send(struct.pack(">HHI", 0x8003, 1, len(payload)) + payload)

    def write(self, number: int, data: bytes, *, is_last: bool = False) -> None:
        flags = 1 << 24 if is_last else 0
        self._send(struct.pack(">II", number, flags | len(data)) + data)

    def control(self, kind: int, payload: bytes) -> None:
        self._send(struct.pack(">HHI", 0x8003, kind, len(payload)) + payload)

    def end(self) -> None:
        """End the connection."""
        self._pipe.to_server.put_nowait(b"")

    async def frame(self) -> tuple[int, bytes, bool]:
        """Return the next data frame: stream, bytes, and whether it is the last.

        A PING comes back as stream 0. Replies to opened streams are noted.
        """
        while True:
            async with asyncio.timeout(5):
                data = await self._pipe.to_client.get()
            first, second = struct.unpack(">II", data[:8])
            if first >> 16 != 0x8003:
                return first, data[8:], bool(second >> 24)
            if first & 0xFFFF == 2:
                self._inflate.decompress(data[12:])
                self.replies.append(struct.unpack(">I", data[8:12])[0])
            else:
                return 0, data[8:], False

    async def whole(self, number: int) -> bytes:
        found = b""
        while True:
            stream, data, is_last = await self.frame()
            if stream == number:
                found += data
                if is_last:
                    return found


async def _shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with what was sent, in capitals."""
    writer.write((await reader.read()).upper())
    await writer.drain()
    writer.close()


@asynccontextmanager
async def program() -> AsyncGenerator[Address, None]:
    """Run a program that answers once its client has sent everything."""
    server = await asyncio.start_server(_shout, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield host, port


@asynccontextmanager
async def forwarded(address_of: AddressOf) -> AsyncGenerator[Client, None]:
    """Forward ports while entered."""
    pipe = Pipe()
    client = Client(pipe)
    serving = asyncio.ensure_future(forwarding(FORWARD_STREAMS, address_of, ())(pipe))
    yield client
    client.end()
    async with asyncio.timeout(5):
        await serving


def opened(client: Client, first: int, port: str) -> None:
    """Open the two streams of a connection, as kubectl does."""
    request = str(first)
    client.open(first, streamtype="error", port=port, requestid=request)
    client.write(first, b"", is_last=True)
    client.open(first + 2, streamtype="data", port=port, requestid=request)


async def test_connections_are_forwarded_side_by_side() -> None:
    """Each has its own streams; the client ends its side first."""
    async with program() as address, forwarded(lambda _: address) as client:
        for first in (1, 5):
            opened(client, first, "80")
        client.write(3, b"one ")
        client.write(7, b"other", is_last=True)
        assert await client.whole(7) == b"OTHER"
        client.write(3, b"more", is_last=True)
        assert await client.whole(3) == b"ONE MORE"
        assert client.replies == [1, 3, 5, 7]


async def test_large_data_comes_whole() -> None:
    async with program() as address, forwarded(lambda _: address) as client:
        opened(client, 1, "80")
        for _ in range(40):
            client.write(3, b"x" * 30_000)
        client.write(3, b"", is_last=True)
        assert await client.whole(3) == b"X" * 1_200_000


async def test_a_port_without_a_program_is_named_in_the_error_stream() -> None:

    def address_of(port: int) -> Address:
        if port == 81:
            msg = "no program"
            raise PortError(msg)
        return "127.0.0.1", 1

    async with forwarded(address_of) as client:
        opened(client, 1, "80")
        why = b"port 80: dial tcp 127.0.0.1:1: connect: connection refused"
        assert await client.whole(1) == why
        opened(client, 5, "81")
        assert await client.whole(5) == b"no program"
        opened(client, 9, "web")
        assert await client.whole(9) == b'"port" header "web" is no number'


async def test_a_ping_is_answered() -> None:
    """A client gives a silent connection up."""
    async with forwarded(lambda _: ("127.0.0.1", 1)) as client:
        client.control(6, b"\0\0\0\1")
        assert await client.frame() == (0, b"\0\0\0\1", False)


async def test_a_client_may_give_a_connection_up() -> None:
    """The program's side is closed; other connections go on."""
    closed = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        await reader.read()
        closed.set()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        async with forwarded(lambda _: (host, port)) as client:
            opened(client, 1, "80")
            assert await client.frame() == (3, b"hello", False)
            client.control(3, struct.pack(">II", 3, 5))
            async with asyncio.timeout(5):
                await closed.wait()


async def test_a_client_that_does_not_speak_spdy_is_disconnected() -> None:
    """Its frames would take all memory."""
    async with forwarded(lambda _: ("127.0.0.1", 1)) as client:
        client.write(1, b"", is_last=True)
        client._send(struct.pack(">II", 1, 0xFFFFFF) + b"x")
    async with forwarded(lambda _: ("127.0.0.1", 1)) as client:
        client.control(1, b"\0\0\0\1\0\0\0\0\0\0wrong")
