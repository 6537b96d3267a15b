"""A caller that gives up does not disturb the requests of others."""

import asyncio

from controller_manager.client.identity.credentials import Identity
from controller_manager.client.rest.transport import Request, Response
from controller_manager.client.wire.connection import Connection
from controller_manager.client.wire.dialing import Dialer, ignore_look_up
from controller_manager.client.wire.file_reserve import FileReserve
from controller_manager.client.wire.http import Wire
from controller_manager.client.wire.pool import Pool

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
SERVER = "http://127.0.0.1"
IDENTITY = Identity((), tls=False)


class Socket(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.requests: list[bytes] = []
        self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.requests.append(bytes(data).split(b" ", 1)[0])

    def abort(self) -> None:
        self.is_aborted = True


class OneConnection(Dialer):
    def __init__(self) -> None:
        super().__init__(SERVER, None, None, FileReserve(0), ignore_look_up)
        self.socket = Socket()
        self.opened: list[Connection] = []
        self.is_open = asyncio.Event()

    async def open(self, pool: Pool, identity: Identity) -> Connection:
        assert not self.opened
        connection = Connection(pool, identity.tls)
        connection.connection_made(self.socket)
        pool.add(connection)
        self.opened.append(connection)
        self.is_open.set()
        return connection


def wire_of(dialer: OneConnection) -> Wire:
    return Wire(SERVER, "test", dialer)


async def test_a_caller_that_gives_up_late_leaves_the_connection_to_the_next() -> None:
    """Its answer was whole, and the next request was written before it knew."""
    dialer = OneConnection()
    wire = wire_of(dialer)
    gate = asyncio.get_running_loop().create_future()

    async def request_after_gate() -> Response:
        await gate
        return await wire.request(Request("PUT", "/b"), IDENTITY, 1e9)

    first = asyncio.create_task(wire.request(Request("GET", "/a"), IDENTITY, 1e9))
    second = asyncio.create_task(request_after_gate())
    await dialer.is_open.wait()
    (connection,) = dialer.opened
    gate.set_result(None)  # the second request is written before the first task runs
    connection.data_received(ANSWER)
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    assert (dialer.socket.requests, connection.is_closed) == ([b"GET", b"PUT"], False)
    connection.data_received(ANSWER)
    assert await second == Response(200, {"content-length": "2"}, b"{}")
    await wire.close()


async def test_a_caller_that_gives_up_closes_the_connection_of_its_request() -> None:
    """The rest of the answer must not reach the next request."""
    dialer = OneConnection()
    wire = wire_of(dialer)
    first = asyncio.create_task(wire.request(Request("GET", "/a"), IDENTITY, 1e9))
    await dialer.is_open.wait()
    first.cancel()
    await asyncio.wait([first])
    assert (dialer.opened[0].is_closed, dialer.socket.is_aborted) == (True, True)
    await wire.close()
