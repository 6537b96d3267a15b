"""The headers of every answer of the HTTPS server."""

import asyncio
from email.parser import BytesHeaderParser

import pytest

from tests.serving.servers import serving, trusting

ANSWERED = {
    "health": (b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", b"200"),
    "head": (b"HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n", b"200"),
    "streamed": (
        b"GET /debug/controllers/some-controller/page HTTP/1.1\r\nHost: a\r\n\r\n",
        b"200",
    ),
    "metrics": (b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", b"200"),
    "object": (
        b"GET /flagz HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n",
        b"406",
    ),
    "not found": (b"GET /absent HTTP/1.1\r\nHost: a\r\n\r\n", b"404"),
    "expectation": (
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n",
        b"417",
    ),
    "no http": (b"garbage\r\n\r\n", b"400"),
    "bad header": (b"GET / HTTP/1.1\r\nHost: a\r\nb\x00c: d\r\n\r\n", b"400"),
    "too long": (b"GET /" + 10_000 * b"a" + b" HTTP/1.1\r\nHost: a\r\n\r\n", b"400"),
    "bad length": (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", b"400"),
}


async def answer_to(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
    writer.write(request)
    answer = await reader.readuntil(b"\r\n\r\n")
    if b"400 Bad" in answer:
        answer += await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("name", ANSWERED)
async def test_no_answer_names_the_library_or_the_language(name: str) -> None:
    """Neither in its header, nor in the text about bytes that are no request."""
    request, status = ANSWERED[name]
    async with serving() as url:
        answer = await answer_to(int(url.rpartition(":")[2]), request)
    assert answer.split()[1] == status
    head, _, body = answer.partition(b"\r\n\r\n")
    headers = BytesHeaderParser().parsebytes(head.partition(b"\r\n")[2])
    assert "server" not in headers
    assert b"python" not in answer.lower()
    assert body in (b"", b"400 Bad Request")
