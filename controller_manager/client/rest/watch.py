"""The events of a watch stream, and their decoder."""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from controller_manager.api.json_objects import Decoder
from controller_manager.api.meta import APIStruct, KubeObject, Status

from .errors import ProtocolError, error_from_status
from .transport import LARGEST_ANSWER

ObjectT = TypeVar("ObjectT", bound=KubeObject)

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
