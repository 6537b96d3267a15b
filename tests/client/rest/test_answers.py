"""Answers are read as far as they are needed, null as Go reads it."""

import asyncio
import io
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import pytest

from controller_manager.api import meta
from controller_manager.api.authentication import v1
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.cel.schemas import Schemas
from controller_manager.cel.types import Object
from controller_manager.client.rest import api_answer, errors, serializer
from controller_manager.client.rest.api_answer import CallTimeout, Content
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import (
    Forbidden,
    ProtocolError,
    RequestTimeout,
    error_from_response,
)
from controller_manager.client.rest.request import WarningHeaders, parse_date
from controller_manager.client.rest.serializer import lines_of
from controller_manager.client.rest.transport import (
    LARGEST_ANSWER,
    LARGEST_LIST,
    Request,
    Response,
    Stream,
)
from controller_manager.clock import LoopClock
from controller_manager.observability.logs import make_logger
from tests.clusters import EPOCH, Cluster

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


async def test_a_warning_is_logged_once(cluster: Cluster) -> None:
    header = '299 - "v1 is \\"old\\"", 299 - "unknown field", 199 - "misc"'

    async def warn(_: Request) -> Response:
        return Response(200, {"warning": header}, b"{}")

    cluster.server.handle = warn  # type: ignore[method-assign, assignment]
    log = io.StringIO()
    client = Client(
        cluster.transport,
        cluster.clock,
        warnings=WarningHeaders(make_logger(stream=log)),
    )
    for _ in range(3):
        await client.get(PODS, "default", "a")
    lines = [line.partition("] ")[2] for line in log.getvalue().splitlines()]
    assert lines == [
        '"The API server warns" warning="v1 is \\"old\\""',
        '"The API server warns" warning="unknown field"',
    ]


def test_a_review_of_a_user_with_an_empty_extra_value_is_read() -> None:
    """Go writes null for a list without elements in a map."""
    user = b'{"username":"a","groups":null,"extra":{"scopes":null,"ids":["1"]}}'
    body = b'{"status":{"authenticated":true,"user":%b,"audiences":null}}' % user
    expected = v1.TokenReview(
        status=v1.TokenReviewStatus(
            authenticated=True,
            user=v1.UserInfo(username="a", extra={"scopes": (), "ids": ("1",)}),
        )
    )
    assert serializer.decode(v1.TOKEN_REVIEWS.type, Response(200, {}, body)) == expected


def _partial(name: str) -> meta.PartialObject:
    return meta.PartialObject(metadata=meta.PartialMetadata(name=name))


async def test_a_list_with_nulls_is_read() -> None:
    item = b'{"metadata":{"name":"%b","namespace":%b,"labels":{"a":%b}}}'
    usual = item % (b"a" * 1000, b'""', b'""')
    count = 3 * serializer.SLICE // len(usual)
    items = [usual] * count
    items[count // 2] = item % (b"b", b"null", b"null")
    body = b'{"metadata":{"continue":null},"items":[%b]}' % b",".join(items)
    found = await serializer.decode_list(meta.PartialObject, body)
    expected = [
        meta.PartialObject(
            metadata=meta.PartialMetadata(name="a" * 1000, labels={"a": ""})
        )
    ] * count
    expected[count // 2] = meta.PartialObject(
        metadata=meta.PartialMetadata(name="b", labels={"a": ""})
    )
    assert found == meta.ObjectList(meta.ListMeta(), expected)


async def test_an_event_of_a_watch_with_nulls_is_read() -> None:
    """Otherwise the watch would end with it, again and again."""

    async def chunks() -> AsyncGenerator[bytes, None]:
        yield b'{"type":"ADDED","object":{"metadata":{"name":"a","uid":null}}}\n'

    (lines,) = [each async for each in serializer.lines_of(chunks())]
    decoder = serializer.EventDecoder(meta.PartialObject)
    assert [decoder.decode(each) for each in lines] == [serializer.Added(_partial("a"))]


def test_a_refusal_with_nulls_keeps_its_reason() -> None:
    """An aggregated API may write it."""
    body = b'{"message":"no","reason":"Forbidden","code":403,"details":{"name":null}}'
    error = error_from_response(403, body, None)
    assert (type(error), str(error)) == (Forbidden, "no")


@pytest.mark.parametrize("nothing", [b"{}", b'{"components":null}'])
def test_a_schema_document_may_have_no_schemas(nothing: bytes) -> None:
    assert Schemas(nothing).type_of("", "v1", "Node") is None


def test_a_schema_with_nulls_is_read() -> None:
    kind = b'{"group":null,"version":"v1","kind":"Node"}'
    document = (
        b'{"components":{"schemas":{"Other":null,"Node":{"type":"object","format":null,'
        b'"allOf":null,"properties":{"spec":{"type":"object","allOf":[null],'
        b'"additionalProperties":null}},'
        b'"x-kubernetes-group-version-kind":[null,%b]}}}}' % kind
    )
    found = Schemas(document).type_of(NODES.group, "v1", "Node")
    assert isinstance(found, Object)
    assert found.field("spec") is not None


_NOON = datetime(2026, 11, 28, 12, 37, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("date", "time"),
    [
        ("Sat, 28 Nov 2026 12:37:05 GMT", _NOON),
        ("Thu, 01 Jan 1970 00:00:00 GMT", datetime(1970, 1, 1, tzinfo=UTC)),
        ("Sat, 28 Nov 2026 12:37:05 +0000", _NOON),
        ("Saturday, 28-Nov-26 12:37:05 GMT", _NOON),
    ],
)
def test_a_date_header_is_parsed(date: str, time: datetime) -> None:
    assert parse_date(date) == time == parsedate_to_datetime(date)
    assert parse_date(date).utcoffset() == timedelta(0)


@pytest.mark.parametrize("date", ["yesterday", "Sat, 99 Nov 2026 12:37:05 GMT"])
def test_an_invalid_date_header_is_refused(date: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_date(date)
