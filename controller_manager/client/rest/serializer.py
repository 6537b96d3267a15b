"""The bytes of requests, answers and watches, and the media types that are asked for.

Long lists are decoded in slices. One call for 100 MB keeps the interpreter for seconds,
in which no thread runs, so that a lease could be lost. A list is cut where an item
begins as its first item does. A slice that is no valid JSON was cut inside of an item,
and ends at a later place instead. So the result is the same as that of one call.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from controller_manager.api.json_objects import Decoder
from controller_manager.api.meta import (
    AnyResource,
    APIStruct,
    CompleteObject,
    KubeObject,
    ObjectList,
    ObjectT,
    Status,
)

from .errors import ProtocolError, error_from_status
from .transport import LARGEST_ANSWER, Response

DecodedT = TypeVar("DecodedT")

JSON: Final = {"accept": "application/json", "content-type": "application/json"}
APPLY_PATCH: Final = "application/apply-patch+yaml"
_METADATA: Final = {
    "accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
    "application/json",
    "content-type": "application/json",
}
METADATA_LIST: Final = {
    "accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
    "application/json",
}


@cache
def _decoder(object_type: type[DecodedT]) -> Decoder[DecodedT]:
    return Decoder(object_type)


def decode(object_type: type[DecodedT], answer: Response) -> DecodedT:
    """Return the object in an answer, with null as Go reads it.

    Raises ProtocolError.
    """
    # mypy takes no type object for Hashable (its issue 11469).
    decoder: Decoder[DecodedT] = _decoder(object_type)  # type: ignore[arg-type]
    try:
        return decoder.decode(answer.body)
    except msgspec.DecodeError as error:
        raise unreadable(error) from error


def unreadable(error: msgspec.DecodeError) -> ProtocolError:
    """Return the error for an answer that cannot be decoded."""
    return ProtocolError(f"the API server's answer cannot be read: {error}")


def headers_of(resource: AnyResource) -> Mapping[str, str]:
    """Return the headers of requests whose answer is one object of a resource."""
    return _METADATA if resource.metadata_only else JSON


def encode(resource: AnyResource, obj: CompleteObject) -> bytes:
    """Return a request body; raises TypeError unless `obj` is complete."""
    require_complete(obj)
    if not obj.kind:
        obj = msgspec.structs.replace(
            obj, api_version=resource.api_version, kind=resource.kind
        )
    return msgspec.json.encode(obj)


def require_complete(obj: KubeObject) -> None:
    """Raise TypeError for a projection, if the type checker has not found it."""
    if not isinstance(obj, CompleteObject):
        name = type(obj).__name__
        msg = (
            f"{name} is a projection: a PUT would delete the fields that it lacks; "
            "patch the object, or create it from bytes"
        )
        raise TypeError(msg)


SLICE: Final = 256 * 1024
"""The bytes of a slice, at least: they are decoded in two to five milliseconds."""

_ITEMS: Final = b'"items":['
_TRIES: Final = 16
"""The cuts inside of items after which the rest is decoded in one call."""


class _Head(msgspec.Struct):
    """The beginning of a list, closed before its first item."""

    items: list[msgspec.Raw]


class Slices(Generic[ObjectT]):
    """The items of one list, slice by slice, and at the end the list without them."""

    def __init__(self, object_type: type[ObjectT], body: bytes) -> None:
        self._type = object_type
        self._body = body
        self._first, self._start = _first_item(body)
        self._done = self._start
        """The place of the first item that is not decoded yet."""

    def __iter__(self) -> Iterator[list[ObjectT]]:
        """Yield slices while much is left; raises msgspec.DecodeError."""
        decoder = _array_decoder(self._type)
        tries = 0
        end = self._next_end(self._done)
        while end > 0 and tries < _TRIES:
            try:
                items = decoder.decode(b"[%b]" % self._body[self._done : end])
            except msgspec.DecodeError:
                # Cut inside of an item, or the item is wrong: then the rest is, too.
                tries += 1
                end = self._body.find(self._first, end + 1)
                continue
            yield items
            self._done = end + 1
            tries, end = 0, self._next_end(self._done)

    def rest(self) -> ObjectList[ObjectT]:
        """Return the list with the items that are left; raises msgspec.DecodeError."""
        body = self._body
        if self._done > self._start:
            body = body[: self._start] + body[self._done :]
        return list_decoder(self._type).decode(body)

    def _next_end(self, start: int) -> int:
        """Return where the next slice may end, -1 if little or nothing can be cut."""
        if not self._first or len(self._body) - start < 2 * SLICE:
            return -1
        return self._body.find(self._first, start + SLICE)


async def decode_list(object_type: type[ObjectT], body: bytes) -> ObjectList[ObjectT]:
    """Decode the body of a list; other tasks get a turn after each slice.

    Raises msgspec.DecodeError.
    """
    if len(body) < 2 * SLICE:
        return list_decoder(object_type).decode(body)
    slices = Slices(object_type, body)
    items: list[ObjectT] = []
    for each in slices:
        items += each
        await asyncio.sleep(0)
    rest = slices.rest()
    return ObjectList(rest.metadata, [*items, *(rest.items or ())])


def _first_item(body: bytes) -> tuple[bytes, int]:
    """Return the text before each later item, and the place of the first item.

    The text is empty if the list has another form than that of API servers.
    """
    start = body.find(_ITEMS) + len(_ITEMS)
    try:
        _head_decoder.decode(body[:start] + b"]}")
    except msgspec.DecodeError:
        return b"", start
    end = body.find(b":", start)
    key = body[start:end]
    return (b"," + key, start) if key.startswith(b'{"') else (b"", start)


_head_decoder: Final = msgspec.json.Decoder(_Head)


@cache
def list_decoder(object_type: type[ObjectT]) -> Decoder[ObjectList[ObjectT]]:
    """Return the decoder of lists of a type."""
    return Decoder(ObjectList[object_type])  # type: ignore[valid-type]


@cache
def _array_decoder(object_type: type[ObjectT]) -> Decoder[list[ObjectT]]:
    return Decoder(list[object_type])  # type: ignore[valid-type]


INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends a streamed initial list."""


class Added(Struct, Generic[ObjectT], tag_field="type", tag="ADDED", frozen=True):
    """An object that is new to this watch."""

    object: ObjectT


class Modified(Struct, Generic[ObjectT], tag_field="type", tag="MODIFIED", frozen=True):
    """A new version of an object."""

    object: ObjectT


class Deleted(Struct, Generic[ObjectT], tag_field="type", tag="DELETED", frozen=True):
    """The last version of an object that is gone, or no longer selected."""

    object: ObjectT


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing changed up to this resource version."""

    resource_version: str
    ends_initial_events: bool


ObjectEvent = Added[ObjectT] | Modified[ObjectT] | Deleted[ObjectT]

WatchEvent = Added[ObjectT] | Modified[ObjectT] | Deleted[ObjectT] | Bookmark


class _Untyped(Struct):
    type: str
    object: Raw


class _Progress(APIStruct, frozen=True):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Bookmarked(APIStruct, frozen=True):
    metadata: _Progress = _Progress()


_untyped_decoder: Final = msgspec.json.Decoder(_Untyped)
_bookmark_decoder: Final = Decoder(_Bookmarked)
_status_decoder: Final = Decoder(Status)


class EventDecoder(Generic[ObjectT]):
    """Decodes the lines of a watch of one type.

    Lines with an object, which are almost all, are decoded in one pass.
    """

    def __init__(self, object_type: type[ObjectT]) -> None:
        events: Any = (
            Added[object_type]  # type: ignore[valid-type]
            | Modified[object_type]  # type: ignore[valid-type]
            | Deleted[object_type]  # type: ignore[valid-type]
        )
        self._decoder: Decoder[ObjectEvent[ObjectT]] = Decoder(events)
        self.decode_object: Final = self._decoder.decode_exactly
        """Decodes a line with an object; raises msgspec.DecodeError for any other."""

    def decode(self, line: bytes) -> WatchEvent[ObjectT]:
        """Return the event of one line.

        Raises ProtocolError if the line is not a watch event. For an ERROR event,
        raises the APIError that it contains.
        """
        try:
            return self.decode_object(line)
        except msgspec.DecodeError:
            return self._decode_special(line)

    def _decode_special(self, line: bytes) -> WatchEvent[ObjectT]:
        try:
            event = _untyped_decoder.decode(line)
            if event.type == "ERROR":
                raise error_from_status(_status_decoder.decode(event.object))
            if event.type == "BOOKMARK":
                metadata = _bookmark_decoder.decode(event.object).metadata
                ends = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
                return Bookmark(metadata.resource_version, ends)
        except msgspec.DecodeError as error:
            msg = f"garbage on the watch stream: {line[:80]!r}: {error}"
            raise ProtocolError(msg) from error
        if event.type in ("ADDED", "MODIFIED", "DELETED"):
            return self._with_nulls(line)
        msg = f"an event of unknown type on the watch stream: {event.type!r}"
        raise ProtocolError(msg)

    def _with_nulls(self, line: bytes) -> WatchEvent[ObjectT]:
        try:
            return self._decoder.decode(line)
        except msgspec.DecodeError as error:
            msg = f"an object on the watch stream cannot be read: {line[:80]!r}"
            raise ProtocolError(msg) from error


async def lines_of(
    chunks: AsyncIterator[bytes],
) -> AsyncGenerator[list[bytes], None]:
    """Yield the complete lines of each chunk as one list.

    A last line without a newline is an incomplete event; it is dropped. Raises
    ProtocolError for a line that no object can be: it might never end.
    """
    rest: list[bytes] = []
    size = 0
    async for chunk in chunks:
        lines = chunk.split(b"\n")
        rest.append(lines[0])
        size += len(lines[0])
        if size > LARGEST_ANSWER:
            msg = f"a line of more than {LARGEST_ANSWER} bytes on the watch stream"
            raise ProtocolError(msg)
        if len(lines) == 1:
            continue
        lines[0] = b"".join(rest)
        last = lines.pop()
        rest, size = [last] if last else [], len(last)
        yield [line for line in lines if line]
