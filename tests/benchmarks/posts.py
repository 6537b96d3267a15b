"""``python -m tests.benchmarks.posts``: the CPU time of one POST, by HTTP client.

Each client runs in a process of its own, on uvloop, and sends the same small object to
the same bare server, 16 requests at a time. The clients take turns, because the speed
of a machine changes from minute to minute.
"""

import asyncio
import multiprocessing
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any, Final, cast

import click
import uvloop
from rich.console import Console
from rich.table import Table

from controller_manager.api.core.v1 import PODS
from controller_manager.client.identity.credentials import Credentials
from controller_manager.client.identity.tls import TLSMaterial
from controller_manager.client.leadership.fencing import (
    FencedTransport,
    PermanentOwnership,
)
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.transport import Request
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from controller_manager.serving.certificates import self_signed

Post = Callable[[], Awaitable[object]]
Make = Callable[[AsyncExitStack, str], Awaitable[Post]]

_AT_A_TIME: Final = 16
_WARM_UP: Final = 200
_PATH: Final = "/api/v1/namespaces/default/pods"
_HEADERS: Final = {
    "accept": "application/json",
    "authorization": f"Bearer {'x' * 900}",
    "content-type": "application/json",
}
_BODY: Final = b'{"kind":"Pod","metadata":{"name":"a","annotations":{"b":"%b"}}}' % (
    b"c" * 1200
)
_ANSWER: Final = (
    b"HTTP/1.1 201 Created\r\n"
    b"Audit-Id: 00000000-0000-0000-0000-000000000000\r\n"
    b"Cache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\n"
    b"X-Kubernetes-Pf-Flowschema-Uid: 00000000-0000-0000-0000-000000000000\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 00000000-0000-0000-0000-000000000000\r\n"
    b"Date: Mon, 05 Jan 2026 00:00:00 GMT\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


class _Server(asyncio.Protocol):
    """Answers each request as soon as its body is whole."""

    def __init__(self) -> None:
        self._content = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._content += data
        while (end := self._content.find(b"\r\n\r\n")) >= 0:
            head = self._content[:end].lower()
            _, _, length = head.partition(b"content-length:")
            size = end + 4 + int(length.split(b"\r\n")[0] or 0)
            if len(self._content) < size:
                return
            self._content = self._content[size:]
            self._transport.write(_ANSWER)


def _serve(to_parent: Connection, encrypted: bool) -> None:
    async def run() -> None:
        tls = self_signed("ca", ["127.0.0.1"]).ssl_context() if encrypted else None
        loop = asyncio.get_running_loop()
        server = await loop.create_server(_Server, "127.0.0.1", 0, ssl=tls)
        to_parent.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(run())


def _transport(stack: AsyncExitStack, url: str) -> HTTPTransport:
    credentials = Credentials(
        url, clock=SystemClock(), tls=TLSMaterial(verify=False), token="x" * 900
    )
    transport = HTTPTransport(credentials, "benchmark")
    stack.push_async_callback(transport.close)
    return transport


async def _own(stack: AsyncExitStack, url: str) -> Post:
    transport = _transport(stack, url)
    headers = {each: _HEADERS[each] for each in ("accept", "content-type")}
    request = Request("POST", _PATH, headers=headers, body=_BODY)
    return lambda: transport.request(request)


async def _own_client(stack: AsyncExitStack, url: str) -> Post:
    fenced = FencedTransport(_transport(stack, url), PermanentOwnership())
    client = Client(fenced, SystemClock(), in_flight=2 * _AT_A_TIME)
    return lambda: client.create_json(PODS, "default", _BODY)


def _insecure() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _aiohttp(stack: AsyncExitStack, url: str) -> Post:
    import aiohttp  # noqa: PLC0415 - only in the process of this client

    session = await stack.enter_async_context(aiohttp.ClientSession())
    tls = _insecure()

    async def post() -> bytes:
        answer = session.post(f"{url}{_PATH}", data=_BODY, headers=_HEADERS, ssl=tls)
        async with answer as found:
            return await found.read()

    return post


async def _httpx(stack: AsyncExitStack, url: str) -> Post:
    import httpx  # noqa: PLC0415 - only in the process of this client

    client = await stack.enter_async_context(httpx.AsyncClient(verify=_insecure()))
    return lambda: client.post(f"{url}{_PATH}", content=_BODY, headers=_HEADERS)


async def _pyreqwest(stack: AsyncExitStack, url: str) -> Post:
    from pyreqwest.client import ClientBuilder  # noqa: PLC0415

    builder: Any = ClientBuilder().danger_accept_invalid_certs(enable=True)
    client = await stack.enter_async_context(builder.build())

    async def post() -> object:
        request = client.post(f"{url}{_PATH}").headers(_HEADERS).body_bytes(_BODY)
        answer = await request.build().send()
        return await answer.bytes()

    return post


_CLIENTS: Final[dict[str, Make]] = {
    "this transport": _own,
    "this client": _own_client,
    "aiohttp": _aiohttp,
    "httpx": _httpx,
    "pyreqwest": _pyreqwest,
}


def _measure(to_parent: Connection, name: str, url: str, posts: int) -> None:
    async def run() -> float:
        async with AsyncExitStack() as stack:
            post = await _CLIENTS[name](stack, url)

            async def send(count: int) -> None:
                for _ in range(count):
                    await post()

            await asyncio.gather(*(send(_WARM_UP // 16) for _ in range(_AT_A_TIME)))
            began = time.process_time()
            each = posts // _AT_A_TIME
            await asyncio.gather(*(send(each) for _ in range(_AT_A_TIME)))
            return (time.process_time() - began) / (each * _AT_A_TIME)

    to_parent.send(uvloop.run(run()))


def _in_process(target: Callable[..., None], *args: object) -> Any:
    """Run a function in a process of its own; return the first thing that it sends."""
    context = multiprocessing.get_context("spawn")
    mine, other = context.Pipe()
    process = context.Process(target=target, args=(other, *args), daemon=True)
    process.start()
    other.close()
    return process, mine.recv()


def measure(
    names: list[str], rounds: int, posts: int, *, tls: bool
) -> dict[str, float]:
    """Return the least CPU seconds of a POST by client, of so many rounds."""
    server, port = _in_process(_serve, tls)
    url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    least: dict[str, float] = {}
    try:
        for _ in range(rounds):
            for name in names:
                process, seconds = _in_process(_measure, name, url, posts)
                process.join()
                least[name] = min(seconds, least.get(name, seconds))
    finally:
        server.terminate()
        server.join()
    return least


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--posts", type=click.IntRange(16), default=4800, show_default=True)
def main(rounds: int, posts: int) -> None:
    """Compare the CPU time of one POST over several HTTP clients."""
    names = [each for each in _CLIENTS if each.startswith("this") or find_spec(each)]
    table = Table("client", "HTTP, µs", "HTTPS, µs", "HTTPS, of the first")
    plain = measure(names, rounds, posts, tls=False)
    secure = measure(names, rounds, posts, tls=True)
    for name in names:
        ratio = secure[name] / secure[names[0]]
        figures = (plain[name] * 1e6, secure[name] * 1e6)
        table.add_row(name, *(f"{each:.0f}" for each in figures), f"{ratio:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
