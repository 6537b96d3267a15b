"""Requests through proxies that work: CONNECT, TLS to the proxy, TLS in TLS."""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop

from controller_manager.api.core.v1 import CONFIG_MAPS
from controller_manager.client.identity.tls import TLSMaterial
from controller_manager.client.leadership.fencing import FencedTransport, NotLeading
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import NotSent, UntrustedServer
from controller_manager.client.rest.transport import Request
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from controller_manager.serving.certificates import Pair, self_signed
from tests.http.servers import Owned, connected, listening

HOST = "api.test"
LARGE = b"x" * 3_000_000
OF_SERVER = self_signed("ca", [HOST])
OF_PROXY = self_signed("ca", ["localhost"])
AGREED = b"HTTP/1.1 200 Connection established\r\n\r\n"


async def serve(
    served: list[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        served.append(head.partition(b" ")[0])
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        body = await reader.readexactly(int(length or 0))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
        writer.write(body)
        await writer.drain()


class Proxy:
    def __init__(self, target: int, served: list[bytes], agreed: bytes) -> None:
        self.heads: list[bytes] = []
        self.served = served
        """The methods of the requests that have reached the server."""
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        """It connects once this is set."""
        self.gate.set()
        self._target = target
        self._agreed = agreed

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        self.asked.set()
        await self.gate.wait()
        inner, outer = await asyncio.open_connection("127.0.0.1", self._target)
        for part in self._agreed.split(b"|"):
            writer.write(part)
            await asyncio.sleep(0)
        await asyncio.gather(pump(reader, outer), pump(inner, writer))


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    except (ConnectionError, ssl.SSLError):
        pass  # one side has gone; the other one learns it
    finally:
        sink.close()


@asynccontextmanager
async def through(
    scheme: str, authority: Path, *, agreed: bytes = AGREED
) -> AsyncGenerator[tuple[HTTPTransport, Proxy], None]:
    served: list[bytes] = []
    async with listening(partial(serve, served), tls=OF_SERVER.ssl_context()) as target:
        proxy = Proxy(target, served, agreed)
        tls = OF_PROXY.ssl_context() if scheme == "https" else None
        async with (
            listening(proxy.serve, tls=tls) as port,
            connected(
                f"https://{HOST}:{target}",
                tls=TLSMaterial(authority=authority),
                proxy=f"{scheme}://jane:s3%2Fcret@localhost:{port}",
            ) as transport,
        ):
            yield transport, proxy


@pytest.fixture
def authorities(tmp_path: Path) -> Path:
    file = tmp_path / "ca.crt"
    file.write_bytes(OF_SERVER.certificate + b"\n" + OF_PROXY.certificate)
    return file


async def bodies_of_ten_requests(scheme: str, authority: Path) -> None:
    """One after the other, large ones among them: all on one connection."""
    async with through(scheme, authority) as (transport, proxy):
        for number in range(10):
            body = LARGE if number % 3 == 0 else b"%d" % number
            answer = await transport.request(Request("POST", "/api", body=body))
            assert (answer.status, answer.body) == (200, body)
        stream = await transport.stream(Request("POST", "/watch", body=LARGE))
        async with aclosing(stream.chunks()) as chunks:
            assert b"".join([each async for each in chunks]) == LARGE
        await stream.close()
    (head,) = proxy.heads
    host = transport.host
    assert head == (
        f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n"
        "Proxy-Authorization: Basic amFuZTpzMy9jcmV0\r\n\r\n"
    ).encode("ascii")


@pytest.mark.parametrize("make", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_all_requests_to_a_server_with_tls_share_a_tunnel(
    scheme: str, make: Callable[[], asyncio.AbstractEventLoop], authorities: Path
) -> None:
    test: Coroutine[Any, Any, None] = bodies_of_ten_requests(scheme, authorities)
    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(test)


@pytest.mark.parametrize(
    "agreed",
    [
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 200 |OK\r\nVia: a|\r\n\r|\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 \r\n\r\n",
    ],
)
async def test_each_way_of_agreement_of_a_proxy_is_understood(
    agreed: bytes, authorities: Path
) -> None:
    """What its headers say of a body and of the connection means nothing (RFC 9110)."""
    async with through("http", authorities, agreed=agreed) as (transport, _):
        answer = await transport.request(Request("POST", "/api", body=b"{}"))
    assert answer.body == b"{}"


async def test_bytes_before_the_servers_are_refused(authorities: Path) -> None:
    """They would be taken for the server's."""
    agreed = AGREED + b"HTTP/1.1 200 OK"
    async with through("http", authorities, agreed=agreed) as (transport, _):
        with pytest.raises(NotSent, match="cannot connect"):
            await transport.request(Request("POST", "/api", body=b"{}"))


async def refusal_by(file: Path) -> str:
    async with through("https", file) as (transport, _):
        with pytest.raises(UntrustedServer) as refused:
            await transport.request(Request("GET", "/api"))
    return re.sub(r":\d+", "", str(refused.value))


@pytest.mark.parametrize(
    ("trusted", "peer", "setting"),
    [
        (OF_PROXY, "", "server"),
        (OF_SERVER, "the proxy https://localhost: ", "proxy-url"),
    ],
    ids=["server", "proxy"],
)
def test_a_certificate_that_is_not_trusted_names_whose_it_is(
    trusted: Pair, peer: str, setting: str, tmp_path: Path
) -> None:
    """On the loop of the daemon: that of Python 3.11.7 breaks at TLS in TLS."""
    file = tmp_path / "ca.crt"
    file.write_bytes(trusted.certificate)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        message = runner.run(refusal_by(file))
    assert message == (
        f"GET /api at api.test: {peer}the certificate is not trusted: self-signed "
        f"certificate; check the kubeconfig's certificate-authority and {setting}"
    )


async def test_no_byte_of_a_write_is_sent_if_the_lease_ends_while_a_proxy_connects(
    authorities: Path,
) -> None:
    """The fence is asked in the call that writes, as without a proxy."""
    owned = Owned()
    async with through("http", authorities) as (transport, proxy):
        proxy.gate.clear()
        client = Client(FencedTransport(transport, owned), SystemClock())
        writing = asyncio.create_task(client.delete(CONFIG_MAPS, "default", "a"))
        await proxy.asked.wait()
        owned.seconds = 0.0
        proxy.gate.set()
        with pytest.raises(NotLeading):
            await writing
        owned.seconds = 1000.0
        await client.raw("GET", "/healthz")
    assert (proxy.served, len(proxy.heads)) == ([b"GET"], 1)
