"""Decodes long lists in slices: one call for 100 MB keeps the interpreter for seconds.

No thread runs meanwhile, so that a lease could be lost. A list is cut where an item
begins as its first item does. A slice that is no valid JSON was cut inside of an item,
and ends at a later place instead. So the result is the same as that of one call.
"""

import asyncio
from collections.abc import Iterator
from functools import cache
from typing import Final, Generic

import msgspec

from controller_manager.api.meta import ObjectList, ObjectT
from controller_manager.api.nulls import Decoder

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
