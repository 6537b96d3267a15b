"""The body of an answer is read as from aiohttp's StreamReader."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from controller_manager.client.rest import api_answer
from controller_manager.client.rest.api_answer import CallTimeout, Content
from controller_manager.client.rest.errors import ProtocolError, RequestTimeout

pytestmark = pytest.mark.looptime


async def pieces(*given: bytes | Exception) -> AsyncGenerator[bytes, None]:
    for each in given:
        if isinstance(each, Exception):
            raise each
        yield each


async def test_a_line_of_several_pieces_is_read_as_one() -> None:
    """A last line without an end comes as it is, and nothing after it."""
    content = Content(pieces(b"a", b"b\n\nc\nd", b"e", b"\nf"))
    lines = [await content.readline() for _ in range(6)]
    assert lines == [b"ab\n", b"\n", b"c\n", b"de\n", b"f", b""]


async def test_an_endless_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It might never end, and take all memory."""
    monkeypatch.setattr(api_answer, "LARGEST_ANSWER", 10)
    content = Content(pieces(*[b"abcd"] * 100))
    with pytest.raises(ProtocolError, match="a line of more than 10 bytes"):
        await content.readline()


async def test_a_silent_stream_raises_the_error_of_asyncio() -> None:
    """A Watch of kubernetes_asyncio opens another one then."""
    content = Content(pieces(b"a", RequestTimeout("nothing came")))
    with pytest.raises(TimeoutError, match="nothing came") as late:
        await content.readline()
    assert isinstance(late.value, CallTimeout)


async def test_a_read_that_is_cancelled_ends_the_body() -> None:
    async def silent() -> AsyncGenerator[bytes, None]:
        yield b"a\n"
        await asyncio.sleep(100)
        yield b"b\n"

    content = Content(silent())
    assert await content.readline() == b"a\n"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await content.readline()
    assert await content.readline() == b""
