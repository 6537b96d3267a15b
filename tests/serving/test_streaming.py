"""Pages that are sent piece by piece."""

import asyncio
import socket
from collections.abc import Mapping
from contextlib import closing

import aiohttp
import pytest

from controller_manager.serving.answers import Pieces
from controller_manager.serving.connection import ConnectionLimits
from tests.serving.servers import get, serving, trusting

KILOBYTES = b"x" * 65536


async def test_other_tasks_get_a_turn_between_two_pieces() -> None:
    """Even if the client reads them fast."""
    turns = 0
    seen: list[int] = []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def page(_: Mapping[str, list[str]]) -> tuple[str, Pieces]:
        def pieces() -> Pieces:
            for number in range(100):
                seen.append(turns)
                yield b"piece " if number % 2 else b""

        return "text/plain", pieces()

    async with serving(debug={"a": {"page": page}}) as url:
        task = asyncio.create_task(others())
        answer = await get(f"{url}/debug/controllers/a/page")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert answer == (200, "piece " * 50)
    assert (len(seen), seen) == (100, sorted(set(seen)))


class Endless:
    """A page without end; notes how much of it was made, and when it ended."""

    def __init__(self) -> None:
        self.made = 0
        self.ended = asyncio.Event()

    def page(self, _: Mapping[str, list[str]]) -> tuple[str, Pieces]:
        return "text/plain", self._pieces()

    def _pieces(self) -> Pieces:
        try:
            while True:
                self.made += 1
                yield KILOBYTES
        finally:
            self.ended.set()


async def test_a_client_that_reads_nothing_holds_little_and_is_cut_off() -> None:
    """The server keeps only what the sockets and a buffer hold, until the timeout."""
    endless = Endless()
    limits = ConnectionLimits(stalled=0.5)
    async with serving(limits=limits, debug={"a": {"page": endless.page}}) as url:
        port = int(url.rpartition(":")[2])
        with closing(socket.socket()) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            sock.settimeout(10)
            await asyncio.to_thread(sock.connect, ("127.0.0.1", port))
            wrapped = await asyncio.to_thread(trusting().wrap_socket, sock)
            wrapped.sendall(
                b"GET /debug/controllers/a/page HTTP/1.1\r\nHost: a\r\n\r\n"
            )
            async with asyncio.timeout(10):
                await endless.ended.wait()
            wrapped.close()
    assert 1 <= endless.made <= 300  # 20 MB; the rest would be without end


async def test_a_client_that_goes_away_ends_the_page() -> None:
    endless = Endless()
    async with serving(debug={"a": {"page": endless.page}}) as url:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{url}/debug/controllers/a/page", ssl=trusting()) as answer,
        ):
            assert await answer.content.readexactly(10) == KILOBYTES[:10]
        async with asyncio.timeout(10):
            await endless.ended.wait()


async def test_the_connection_is_cut_if_a_page_fails() -> None:
    """So the client does not believe that the page is complete."""

    def page(_: Mapping[str, list[str]]) -> tuple[str, Pieces]:
        def pieces() -> Pieces:
            yield b"half"
            raise LookupError

        return "text/plain", pieces()

    async with serving(debug={"a": {"page": page}}) as url:
        with pytest.raises(aiohttp.ClientError):
            await get(f"{url}/debug/controllers/a/page")


async def test_a_head_of_a_page_has_no_body() -> None:
    endless = Endless()
    async with (
        serving(debug={"a": {"page": endless.page}}) as url,
        aiohttp.ClientSession() as session,
        session.head(f"{url}/debug/controllers/a/page", ssl=trusting()) as answer,
    ):
        head = (answer.status, answer.content_type, await answer.read())
    assert (head, endless.made) == ((200, "text/plain", b""), 0)
