"""The transport leaves connections and addresses behind that may be dead."""

import asyncio
import re
import socket
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.client.rest.errors import NotSent, RequestTimeout
from controller_manager.client.rest.transport import Request
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.observability.connections import LookUpSeconds
from controller_manager.observability.exposition import expose
from tests.http.servers import connected, listening

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HEADERS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
QUICK = Request("GET", "/healthz", timeout=0.2)
PATIENT = Request("GET", "/healthz", timeout=10)
"""For answers that come: a busy machine may take longer than 0.2 s."""


class Server:
    """Answers requests, until it dies behind a proxy that keeps its connections open.

    Connections that are opened after that lead to another server, which answers.
    """

    def __init__(self) -> None:
        self.connections = 0
        self.dead_below = 0
        """Connections with a lower number are dead."""

    def die(self) -> None:
        self.dead_below = self.connections

    @asynccontextmanager
    async def running(
        self, host: str = "127.0.0.1", name: str = ""
    ) -> AsyncGenerator[HTTPTransport, None]:
        """Run on an address; yield a transport to it, by a name if there is one."""
        async with (
            listening(self.serve, host) as port,
            connected(f"http://{name or host}:{port}") as transport,
        ):
            yield transport

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        number, self.connections = self.connections, self.connections + 1
        while request := await reader.readline():
            while (await reader.readline()).strip():
                continue
            if number >= self.dead_below:
                writer.write(HEADERS if b"watch" in request else ANSWER)


async def fill_pool(transport: HTTPTransport, connections: int) -> None:
    """Send requests at the same time, so that idle connections are left."""
    requests = (transport.request(QUICK) for _ in range(connections))
    assert [each.status for each in await asyncio.gather(*requests)] == [
        200
    ] * connections


async def time_out(transport: HTTPTransport) -> None:
    with pytest.raises(RequestTimeout):
        await transport.request(QUICK)


async def stream_without_headers(transport: HTTPTransport) -> None:
    with pytest.raises(RequestTimeout):
        await transport.stream(QUICK)


async def caller_gives_up(transport: HTTPTransport) -> None:
    """End the request by the caller's own deadline, as those of the lease are."""
    patient = Request("GET", "/healthz", timeout=30)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.1):
            await transport.request(patient)


@pytest.mark.parametrize("fails", [time_out, stream_without_headers, caller_gives_up])
async def test_a_request_without_an_answer_drops_the_idle_connections(
    fails: Any,
) -> None:
    """They lead to the same server, so the next request would wait as long."""
    server = Server()
    async with server.running() as transport:
        await fill_pool(transport, 3)
        server.die()
        await fails(transport)
        assert (await transport.request(PATIENT)).body == b"ok"
        assert server.connections == 4


async def falls_silent(transport: HTTPTransport) -> None:
    """Open a watch that brings nothing after its headers until its time is over."""
    silent = await transport.stream(Request("GET", "/watch", timeout=0.2))
    with pytest.raises(RequestTimeout):
        async with aclosing(silent.chunks()) as chunks:
            await anext(chunks)
    await silent.close()


async def test_a_watch_that_brings_nothing_closes_its_own_connection_only() -> None:
    """It has had its answer, and nothing has changed: the server works."""
    server = Server()
    async with server.running() as transport:
        await fill_pool(transport, 5)
        other = await transport.stream(Request("GET", "/watch", timeout=30))
        for _ in range(2):
            await falls_silent(transport)
        await fill_pool(transport, 2)
        assert server.connections == 5
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), aclosing(other.chunks()) as chunks:
                await anext(chunks)
        await other.close()


async def test_a_watch_takes_no_connection_that_has_been_idle_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The watch before it may have been silent because the server died."""
    server = Server()
    async with server.running() as transport:
        await fill_pool(transport, 2)
        await falls_silent(transport)
        server.die()
        loop = asyncio.get_running_loop()
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + 11)
        again = await transport.stream(Request("GET", "/watch", timeout=10))
        assert (again.status, server.connections) == (200, 3)
        await again.close()


async def test_a_request_that_its_caller_cancels_at_once_keeps_the_connections() -> (
    None
):
    """It has not waited for long, so nothing is known about the server."""
    server = Server()
    async with server.running() as transport:
        await fill_pool(transport, 2)
        task = asyncio.create_task(transport.request(QUICK))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (await transport.request(QUICK)).status == 200
        assert server.connections == 2


class Resolver:
    """Answers for one name; patches the look-ups of the running event loop.

    `address` may be several, with spaces between them.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
        self.address = address
        self.lookups = 0
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "getaddrinfo", self._resolve)

    async def _resolve(self, _: str, port: int, **__: Any) -> list[Any]:
        self.lookups += 1
        if not self.address:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        kind = socket.SOCK_STREAM
        return [
            (socket.AF_INET, kind, 6, "", (address, port))
            for address in self.address.split()
        ]


async def refused(transport: HTTPTransport) -> None:
    with pytest.raises(NotSent, match="cannot connect"):
        await transport.request(QUICK)


async def test_after_a_refused_connection_the_server_is_found_at_a_new_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolver = Resolver(monkeypatch, "127.0.0.1")
    server = Server()
    async with server.running("127.0.0.2", "api.test") as transport:
        await refused(transport)
        resolver.address = "127.0.0.2"
        assert (await transport.request(PATIENT)).body == b"ok"
        assert resolver.lookups == 2


@pytest.mark.parametrize(
    "addresses",
    ["127.0.0.3 127.0.0.4 127.0.0.2", "127.0.0.9 127.0.0.2", "127.0.0.2 127.0.0.2"],
    ids=["the others refuse", "one says nothing", "both answer"],
)
async def test_of_several_addresses_one_that_answers_is_found(
    addresses: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal costs no time, and silence a quarter of a second."""
    Resolver(monkeypatch, addresses)
    given_up = await silent_at(monkeypatch, "127.0.0.9")
    server = Server()
    async with server.running("127.0.0.2", "api.test") as transport:
        assert (await transport.request(PATIENT)).body == b"ok"
    assert given_up == (["127.0.0.9"] if "127.0.0.9" in addresses else [])


async def silent_at(monkeypatch: pytest.MonkeyPatch, silent: str) -> list[str]:
    """Let connections to an address wait for ever; return those that were given up."""
    loop = asyncio.get_running_loop()
    connect, given_up = loop.sock_connect, list[str]()

    async def sock_connect(sock: socket.socket, address: Any) -> None:
        if address[0] != silent:
            await connect(sock, address)
            return
        try:
            await loop.create_future()
        finally:
            given_up.append(silent)

    monkeypatch.setattr(loop, "sock_connect", sock_connect)
    return given_up


async def test_the_first_address_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    Resolver(monkeypatch, "127.0.0.3 127.0.0.4")
    async with Server().running("127.0.0.2", "api.test") as transport:
        with pytest.raises(NotSent, match="cannot connect: Connection refused"):
            await transport.request(QUICK)


async def test_the_name_is_looked_up_for_each_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So a server that has moved is found; requests share connections."""
    resolver = Resolver(monkeypatch, "127.0.0.1")
    server = Server()
    async with server.running(name="api.test") as transport:
        lookups = []
        for connections in (1, 2, 3):
            await fill_pool(transport, connections)  # opens one more connection
            lookups.append(resolver.lookups)
        assert (lookups, server.connections) == ([1, 2, 3], 3)


async def test_each_look_up_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    resolver = Resolver(monkeypatch, "")
    look_ups = LookUpSeconds()
    registry = CollectorRegistry()
    look_ups.register(registry)
    async with listening(Server().serve) as port:
        for host in ("127.0.0.1", "api.test"):
            async with connected(
                f"http://{host}:{port}", look_ups.observe
            ) as transport:
                if host == "api.test":
                    with pytest.raises(NotSent, match="Name or service not known"):
                        await transport.request(QUICK)
                resolver.address = "127.0.0.1"
                await fill_pool(transport, 1)
                resolver.address = ""
    name = "rest_client_dns_resolution_duration_seconds"
    shown = [
        re.sub(r" \S+$", "", line)
        for line in expose(registry).decode().splitlines()
        if line.startswith((f"# TYPE {name} ", f"{name}_bucket", f"{name}_sum"))
    ]
    bounds = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, "+Inf")
    assert shown == [
        f"# TYPE {name}",
        *(f'{name}_bucket{{host="api.test",le="{each}"}}' for each in bounds),
        f'{name}_sum{{host="api.test"}}',
    ]
    assert registry.get_sample_value(f"{name}_count", {"host": "api.test"}) == 2
