"""An answer with null in an unusual place is read as Go reads it."""

from collections.abc import AsyncGenerator

import pytest

from controller_manager.api import meta
from controller_manager.api.authentication import v1
from controller_manager.api.core.v1 import NODES
from controller_manager.cel.schemas import Schemas
from controller_manager.cel.types import Object
from controller_manager.client.rest import serializer
from controller_manager.client.rest.errors import Forbidden, error_from_response
from controller_manager.client.rest.transport import Response


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
