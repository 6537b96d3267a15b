"""Decodes the messages of objects, and reads and writes the wire format of protobuf."""

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time

from .models import Field, Model, Models, Type

# The wire format of protobuf: tags, varints, and bytes with a length.

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
        tag, position = _read_varint(data, position)
        number, wire = tag >> 3, tag & 7
        if number >> 31:
            number = _signed(number, 32)
        if wire == GROUP_END:
            raise ProtobufError(f"proto: {message}: wiretype end group for non-group")
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
    if wire == BYTES:
        size, position = _read_varint(data, position)
        if size >> 63:
            raise ProtobufError("proto: negative length found during unmarshaling")
        return position, position + size
    if wire == VARINT:
        return position, _read_varint(data, position)[1]
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
            raise ProtobufError(f"proto: illegal wireType {wire}")
        else:
            position = _content(data, position, wire)[1]
        if not depth:
            return position
        if position >= len(data):
            raise _unexpected_end()
        tag, position = _read_varint(data, position)
        wire = tag & 7


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at a position, and the byte after it; raises ProtobufError."""
    if position < len(data) and data[position] < 0x80:
        return data[position], position + 1
    result = shift = 0
    while True:
        if shift >= 64:
            raise ProtobufError("proto: integer overflow")
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


def _number_of(varint: bytes, bits: int = 64) -> int:
    """Return the number in the content of a field; higher bits are cut off."""
    return _signed(_read_varint(varint, 0)[0], bits)


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


# Decodes the messages of objects, as the code does that Go's protobuf generates.

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_DEEPEST: Final = 100
"""The nesting of messages that is still decoded; the types of the API are less deep."""

_SCHEMA: Final = (
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
)
_WIRES: Final = {"integer": VARINT, "boolean": VARINT, "number": FIXED64}
_ZEROS: Final = {VARINT: b"\0", FIXED64: bytes(8), BYTES: b""}

Parts = dict[str, list[bytes]]
"""The contents of the fields that are messages, by name."""


class Decoder:
    """Decodes messages by their models."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._known: dict[str, Callable[[bytes, int], Any]] = {}

    def message(self, name: str, data: bytes, depth: int = 0) -> Any:
        """Return the JSON of a message; raises ProtobufError."""
        if depth > _DEEPEST:
            raise ProtobufError("the messages are nested too deeply")
        if (decode := self._known.get(name)) is None:
            short = name.rpartition(".")[2]
            of = self._models.model(name), short
            special = getattr(self, f"_{short}", None)
            decode = self._known[name] = special or partial(self._of_model, of)
        return decode(data, depth)

    def _of_model(self, of: tuple[Model, str], data: bytes, depth: int) -> JSON:
        model, _ = of
        obj: JSON = {}
        parts: Parts = {}
        self._read(obj, parts, of, (), data, depth)
        for each, contents in parts.items():
            ref = model.fields[each].ref
            obj[each] = self.message(ref, b"".join(contents), depth + 1)
        return _without_zeros(obj, model)

    def _read(
        self,
        obj: JSON,
        parts: Parts,
        of: tuple[Model, str],
        place: tuple[int, ...],
        data: bytes,
        depth: int,
    ) -> None:
        model, message = of
        for number, wire, content in read_fields(data, message):
            here = (*place, number)
            if here in model.embedded:
                _check_wire(message, wire, BYTES)
                self._read(obj, parts, of, here, content, depth)
            elif found := model.by_number.get(here):
                name, field = found
                if field.ref:
                    _check_wire(name, wire, BYTES)
                    obj.setdefault(name, None)  # the order is that of the fields
                    parts.setdefault(name, []).append(content)
                else:
                    self._set(obj, name, field, wire, content, depth)

    def _set(
        self, obj: JSON, name: str, field: Field, wire: int, content: bytes, depth: int
    ) -> None:
        if field.items is not None:
            items = obj.setdefault(name, [])
            items += self._items(field.items, name, wire, content, depth)
        elif field.values is not None:
            _check_wire(name, wire, BYTES)
            key, value = self._entry(field.values, name, content, depth)
            obj.setdefault(name, {})[key] = value
        else:
            _check_wire(name, wire, _wire(field))
            obj[name] = self._value(field, name, content, depth)

    def _entry(
        self, of: Type, name: str, content: bytes, depth: int
    ) -> tuple[str, Any]:
        """Return a key and its value; each has its zero if the entry lacks it."""
        key, value = b"", _ZEROS[_wire(of)]
        for number, wire, each in read_fields(content, name):
            if number == 1:
                _check_wire(name, wire, BYTES)
                key = each
            elif number == 2:
                _check_wire(name, wire, _wire(of))
                value = each
        return text_of(key), self._value(of, name, value, depth)

    def _items(
        self, of: Type, name: str, wire: int, content: bytes, depth: int
    ) -> list[Any]:
        """Return the items of a list; numbers may be packed into one field."""
        if wire != BYTES or _wire(of) == BYTES:
            _check_wire(name, wire, _wire(of))
            return [self._value(of, name, content, depth)]
        found, position = [], 0
        while position < len(content):
            start = position
            _, position = _read_varint(content, position)
            found.append(self._value(of, name, content[start:position], depth))
        return found

    def _value(self, of: Type, name: str, content: bytes, depth: int) -> Any:
        if of.ref:
            return self.message(of.ref, content, depth + 1)
        if of.items is not None:  # a list as the value of a map is a message
            items: list[Any] = []
            for number, wire, each in read_fields(content, name):
                if number == 1:
                    items += self._items(of.items, "Items", wire, each, depth + 1)
            return items
        match of.type:
            case "integer":
                return _number_of(content, 32 if of.format == "int32" else 64)
            case "boolean":
                return _number_of(content) != 0
            case "number":
                return struct.unpack("<d", content)[0]
        if of.format == "byte":
            return base64.b64encode(content).decode()
        return text_of(content)

    # Types with a form of their own

    def _Time(self, data: bytes, _: int) -> str | None:  # noqa: N802 - a model's name
        seconds = _contents(data, "Timestamp", seconds=VARINT).get("seconds")
        return _time(_last_number(seconds)) if data else None  # Go's zero time

    def _MicroTime(self, data: bytes, _: int) -> str | None:  # noqa: N802
        found = _contents(data, "Timestamp", seconds=VARINT, nanos=VARINT)
        if not data:
            return None
        nanos = _last_number(found.get("nanos"), 32)
        more, micros = divmod(int(nanos / 1000), 1_000_000)
        text = _time(_last_number(found.get("seconds")) + more)
        return f"{text.removesuffix('Z')}.{micros:06}Z"

    def _Quantity(self, data: bytes, _: int) -> str:  # noqa: N802
        texts = _contents(data, "Quantity", string=BYTES).get("string", [b""])
        return text_of(texts[-1]) or "0"

    def _IntOrString(self, data: bytes, _: int) -> Any:  # noqa: N802
        found = _contents(data, "IntOrString", type=VARINT, intVal=VARINT, strVal=BYTES)
        if _last_number(found.get("type")):
            return text_of(found.get("strVal", [b""])[-1])
        return _last_number(found.get("intVal"), 32)

    def _raw(self, data: bytes, _: int) -> Any:
        texts = _contents(data, "RawExtension", raw=BYTES).get("raw", [b""])
        try:
            return msgspec.json.decode(texts[-1] or b"null")
        except (msgspec.DecodeError, RecursionError) as error:
            raise ProtobufError(f"a field has no JSON: {error}") from None

    _FieldsV1 = _JSON = _RawExtension = _raw

    def _Verbs(self, data: bytes, _: int) -> list[str]:  # noqa: N802
        found = _contents(data, "Verbs", items=BYTES)
        return [text_of(each) for each in found.get("items", ())]

    def _JSONSchemaPropsOrArray(self, data: bytes, depth: int) -> Any:  # noqa: N802
        found = _contents(
            data, "JSONSchemaPropsOrArray", schema=BYTES, jSONSchemas=BYTES
        )
        if schemas := found.get("jSONSchemas"):
            return [self.message(_SCHEMA, each, depth + 1) for each in schemas]
        return self._schema(found, depth)

    def _JSONSchemaPropsOrBool(self, data: bytes, depth: int) -> Any:  # noqa: N802
        found = _contents(data, "JSONSchemaPropsOrBool", allows=VARINT, schema=BYTES)
        if "schema" in found:
            return self._schema(found, depth)
        return _last_number(found.get("allows")) != 0

    def _JSONSchemaPropsOrStringArray(self, data: bytes, depth: int) -> Any:  # noqa: N802
        found = _contents(
            data, "JSONSchemaPropsOrStringArray", schema=BYTES, property=BYTES
        )
        if texts := found.get("property"):
            return [text_of(each) for each in texts]
        return self._schema(found, depth)

    def _schema(self, found: dict[str, list[bytes]], depth: int) -> Any:
        """Return the JSON of the field `schema`, `None` if it is absent."""
        if "schema" not in found:
            return None
        return self.message(_SCHEMA, b"".join(found["schema"]), depth + 1)


def _contents(data: bytes, message: str, **fields: int) -> dict[str, list[bytes]]:
    """Return the contents of the fields of a message.

    The fields are given in the order of their numbers, with their wire types.
    """
    found: dict[str, list[bytes]] = {}
    names = tuple(fields)
    for number, wire, content in read_fields(data, message):
        if number <= len(names):
            name = names[number - 1]
            _check_wire(name, wire, fields[name])
            found.setdefault(name, []).append(content)
    return found


def _last_number(contents: list[bytes] | None, bits: int = 64) -> int:
    return _number_of(contents[-1], bits) if contents else 0


def _time(seconds: int) -> str:
    try:
        return format_time(_EPOCH + timedelta(seconds=seconds))
    except OverflowError:
        raise ProtobufError(f"a time has {seconds} seconds") from None


def _wire(of: Type) -> int:
    return _WIRES.get(of.type, BYTES)


def _check_wire(name: str, wire: int, wanted: int) -> None:
    if wire != wanted:
        go_name = name[:1].upper() + name[1:]
        raise ProtobufError(f"proto: wrong wireType = {wire} for field {go_name}")


def _without_zeros(obj: JSON, model: Model) -> JSON:
    """Return a decoded object without the zeros that Go's JSON leaves out."""
    return {
        name: value
        for name, value in obj.items()
        if value or _has_zeros(model.fields[name], value)
    }


def _has_zeros(field: Field, value: Any) -> bool:
    """Tell whether Go's JSON shows a zero value of a field."""
    if field.pointer or not field.omitempty:
        return True
    return bool(field.ref) and not (field.omitzero and value is None)
