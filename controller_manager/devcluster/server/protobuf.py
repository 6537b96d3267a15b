"""Protobuf, as far as kubectl needs it.

Typed clients send their objects in protobuf (``kubectl create deployment``). The
messages of each kind stand with its strategy. The server refuses a field that is not in
its table by name, and never drops it. Answers are JSON, which these clients accept.
"""

import base64
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.times import format_time
from controller_manager.devcluster.server.messages import Message

MAGIC: Final = b"k8s\x00"
MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(ValueError):
    """A message that cannot be decoded."""


# The wire format


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of a message; raises ProtobufError."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire == _BYTES:
            size, position = _varint(data, position)
        elif wire in (_FIXED32, _FIXED64):
            size = 4 if wire == _FIXED32 else 8
        else:
            msg = f"wire type {wire} is not supported"
            raise ProtobufError(msg)
        if position + size > len(data):
            msg = "unexpected end of message"
            raise ProtobufError(msg)
        yield number, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            msg = "unexpected end of message"
            raise ProtobufError(msg)
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return result, position


def write_varint(value: int) -> bytes:
    """Return a number as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_bytes(number: int, value: bytes) -> bytes:
    """Return a field of type string, bytes or message."""
    return write_varint(number << 3 | _BYTES) + write_varint(len(value)) + value


def write_text(number: int, value: str) -> bytes:
    """Return a field of type string, no bytes if it is empty."""
    return write_bytes(number, value.encode()) if value else b""


# Messages


def decode_protobuf(body: bytes, messages: Mapping[str, Message]) -> JSON:
    """Return the object in a body, in the form of its JSON; raises ProtobufError.

    `messages` has all messages that the body may contain, by name. Where the versions
    of a kind have different messages, the apiVersion stands before the name of one.
    """
    if not body.startswith(MAGIC):
        msg = "the body does not begin with the magic number of Kubernetes' protobuf"
        raise ProtobufError(msg)
    envelope = dict(read_fields(body[len(MAGIC) :]))
    meta = dict(read_fields(_as_bytes(envelope.get(1, b""))))
    kind = _as_bytes(meta.get(2, b"")).decode()
    version = _as_bytes(meta.get(1, b"")).decode()
    name = f"{version} {kind}" if f"{version} {kind}" in messages else kind
    obj = _Decoder(messages).message(name, _as_bytes(envelope.get(2, b"")))
    return {"apiVersion": version, "kind": kind, **obj}


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        msg = "a message was expected, not a number"
        raise ProtobufError(msg)
    return value


def _time(obj: JSON) -> str | None:
    # Go sends its zero time as a negative number of seconds, or not at all.
    seconds = obj.get("seconds", 0)
    return format_time(datetime.fromtimestamp(seconds, UTC)) if seconds > 0 else None


def _micro_time(obj: JSON) -> str | None:
    """Return a time as JSON shows it with microseconds."""
    text, micro = _time(obj), obj.get("nanos", 0) // 1000
    return f"{text.removesuffix('Z')}.{micro:06}Z" if text else None


def _json(text: bytes) -> Any:
    """Return the value of a field with JSON inside the message."""
    try:
        return msgspec.json.decode(text or b"{}")
    except (msgspec.DecodeError, RecursionError) as error:
        msg = f"a field has no JSON: {error}"
        raise ProtobufError(msg) from None


class _Decoder:
    """Decodes messages by their tables."""

    def __init__(self, messages: Mapping[str, Message]) -> None:
        self._messages = messages

    def message(self, name: str, data: bytes) -> Any:
        table = self._messages.get(name)
        if table is None:
            msg = f"{name} can be sent as JSON only"
            raise ProtobufError(msg)
        obj: JSON = {}
        for number, value in read_fields(data):
            if number not in table:
                msg = f"field {number} of {name} can be sent as JSON only"
                raise ProtobufError(msg)
            self._set(obj, table[number], value)
        match name:
            case "Time":
                return _time(obj)
            case "MicroTime":
                return _micro_time(obj)
            case "FieldsV1":
                return _json(base64.b64decode(obj.get("raw", "")))
            case "ExtraValue":
                return obj.get("items", [])
            case "Quantity":
                return obj.get("string", "0")
            case "IntOrString":
                text, number = obj.get("strVal", ""), obj.get("intVal", 0)
                return text if obj.get("type") else number
        return obj

    def _set(self, obj: JSON, field: str, value: int | bytes) -> None:
        name, _, kind = field.partition(":")
        if kind.startswith("+"):
            obj.update(self.message(kind[1:], _as_bytes(value)))
        elif kind.startswith("[]"):
            obj.setdefault(name, []).append(self._scalar(kind[2:], value))
        elif kind.startswith("{}"):
            entry = dict(read_fields(_as_bytes(value)))
            key = _as_bytes(entry.get(1, b"")).decode()
            obj.setdefault(name, {})[key] = self._scalar(kind[2:], entry.get(2, b""))
        else:
            obj[name] = self._scalar(kind, value)

    def _scalar(self, kind: str, value: int | bytes) -> Any:
        match kind:
            case "int" if isinstance(value, int):
                return value - (1 << 64) if value >> 63 else value
            case "bool" if isinstance(value, int):
                return bool(value)
            case "str":
                return _as_bytes(value).decode()
            case "bytes":
                return base64.b64encode(_as_bytes(value)).decode()
        return self.message(kind, _as_bytes(value))
