"""A client reads as much of an answer as it may need, and not more."""

from collections.abc import AsyncGenerator, Mapping

import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.serializer import lines_of
from controller_manager.client.rest.transport import (
    LARGEST_ANSWER,
    LARGEST_LIST,
    Request,
    Response,
    Stream,
)
from controller_manager.clock import LoopClock
from tests.clusters import EPOCH

pytestmark = pytest.mark.looptime

PART = b"x" * (1 << 20)


class Endless:
    def __init__(self, status: int) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {}
        self.read = 0
        self.is_closed = False

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while True:
            self.read += len(PART)
            yield PART

    async def close(self) -> None:
        self.is_closed = True


class Server:
    host = "endless"

    def __init__(self, answer: Endless) -> None:
        self.answer = answer
        self.asked: list[tuple[str, int]] = []

    async def request(self, request: Request) -> Response:
        self.asked.append((request.method, request.largest_answer))
        return Response(200, {}, b'{"metadata":{},"items":[]}')

    async def stream(self, request: Request) -> Stream:
        del request
        return self.answer

    async def close(self) -> None:
        """Close nothing."""


async def test_a_line_of_a_watch_that_never_ends_is_given_up() -> None:
    answer = Endless(200)
    client = Client(Server(answer), LoopClock(EPOCH))
    with pytest.raises(errors.ProtocolError, match=f"more than {LARGEST_ANSWER} bytes"):
        _ = [batch async for batch in client.watch(PODS)]
    assert (answer.read, answer.is_closed) == (LARGEST_ANSWER + len(PART), True)


async def test_the_beginning_of_a_refused_watch_is_read() -> None:
    answer = Endless(503)
    client = Client(Server(answer), LoopClock(EPOCH))
    with pytest.raises(errors.APIError) as refusal:
        _ = [batch async for batch in client.watch(PODS)]
    assert refusal.value.status.code == 503
    assert (answer.read, answer.is_closed) == (len(PART), True)


async def test_only_lists_may_be_long() -> None:
    server = Server(Endless(200))
    client = Client(server, LoopClock(EPOCH))
    await client.list_page(PODS)
    await client.delete_collection(PODS, "default")
    await client.delete(PODS, "default", "a")
    assert server.asked == [
        ("GET", LARGEST_LIST),
        ("DELETE", LARGEST_LIST),
        ("DELETE", LARGEST_ANSWER),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_lines_are_the_same_however_they_arrive(size: int) -> None:
    data = b"a\n\nbc\ndef\nrest"

    async def parts() -> AsyncGenerator[bytes, None]:
        for start in range(0, len(data), size):
            yield data[start : start + size]

    lines = [line async for batch in lines_of(parts()) for line in batch]
    assert lines == [b"a", b"bc", b"def"]
