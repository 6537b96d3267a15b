"""The wire format of protobuf: tags, varints, and bytes with a length.

Broken messages are refused with the errors of the code that Go's protobuf generates.
"""

from collections.abc import Iterator
from typing import Final

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = range(6)

_MAX_VARINT: Final = (1 << 64) - 1
_SMALL: Final = tuple(bytes((value,)) for value in range(0x80))
"""The varints of one byte."""

_SIZES: Final = {FIXED64: 8, FIXED32: 4}


class ProtobufError(ValueError):
    """A message that cannot be decoded, or a value that no message can hold."""


def read_fields(data: bytes, message: str = "") -> Iterator[tuple[int, int, bytes]]:
    """Yield (number, wire type, content) of the fields of a message.

    The content of a varint is the varint itself. A group has no content: the fields of
    the API have no such type, so it can only be skipped. Raises ProtobufError, which
    may name the message.
    """
    position, end = 0, len(data)
    while position < end:
        tag, position = read_varint(data, position)
        number, wire = tag >> 3, tag & 7
        if number >> 31:
            number = _signed(number, 32)
        if wire == GROUP_END:
            msg = f"proto: {message}: wiretype end group for non-group"
            raise ProtobufError(msg)
        if number <= 0:
            msg = f"proto: {message}: illegal tag {number} (wire type {wire})"
            raise ProtobufError(msg)
        if wire in (GROUP, 6, 7):
            yield number, wire, b""
            position = _after_group(data, position, wire)
            continue
        start, position = _content(data, position, wire)
        if position > end:
            raise _unexpected_end()
        yield number, wire, data[start:position]


def _content(data: bytes, position: int, wire: int) -> tuple[int, int]:
    """Return the first byte of a content, and the byte after it."""
    if wire == BYTES:
        size, position = read_varint(data, position)
        if size >> 63:
            msg = "proto: negative length found during unmarshaling"
            raise ProtobufError(msg)
        return position, position + size
    if wire == VARINT:
        return position, read_varint(data, position)[1]
    return position, position + _SIZES[wire]


def _after_group(data: bytes, position: int, wire: int) -> int:
    """Return the byte after a group, in which groups may stand."""
    depth = 0
    while True:
        if wire == GROUP:
            depth += 1
        elif wire == GROUP_END:
            depth -= 1
        elif wire > FIXED32:
            msg = f"proto: illegal wireType {wire}"
            raise ProtobufError(msg)
        else:
            position = _content(data, position, wire)[1]
        if not depth:
            return position
        if position >= len(data):
            raise _unexpected_end()
        tag, position = read_varint(data, position)
        wire = tag & 7


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at a position, and the byte after it; raises ProtobufError."""
    if position < len(data) and data[position] < 0x80:
        return data[position], position + 1
    result = shift = 0
    while True:
        if shift >= 64:
            msg = "proto: integer overflow"
            raise ProtobufError(msg)
        if position >= len(data):
            raise _unexpected_end()
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return result & _MAX_VARINT, position


def _unexpected_end() -> ProtobufError:
    return ProtobufError("unexpected EOF")


def number_of(varint: bytes, bits: int = 64) -> int:
    """Return the number in the content of a field; higher bits are cut off."""
    return _signed(read_varint(varint, 0)[0], bits)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def text_of(content: bytes) -> str:
    """Return the text in the content of a field.

    Go takes any bytes, and its JSON shows U+FFFD for each byte that is not UTF-8.
    """
    try:
        return content.decode()
    except UnicodeDecodeError:
        shown = content.decode("utf-8", "surrogateescape")
    return "".join("\ufffd" if "\udc80" <= each <= "\udcff" else each for each in shown)


def write_varint(value: int) -> bytes:
    """Return a number as a varint; a negative one takes ten bytes."""
    if 0 <= value < 0x80:
        return _SMALL[value]
    value &= _MAX_VARINT
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_tag(number: int, wire: int) -> bytes:
    """Return the first bytes of a field."""
    return write_varint(number << 3 | wire)


def write_bytes(number: int, value: bytes) -> bytes:
    """Return a field of type string, bytes or message."""
    return write_tag(number, BYTES) + write_varint(len(value)) + value


def write_number(number: int, value: int) -> bytes:
    """Return a field of an integer type or a boolean."""
    return write_tag(number, VARINT) + write_varint(value)


def write_text(number: int, value: str) -> bytes:
    """Return a field of type string, nothing if it is empty."""
    return write_bytes(number, value.encode()) if value else b""
