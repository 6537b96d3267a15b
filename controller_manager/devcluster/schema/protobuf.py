"""Objects as Kubernetes' protobuf: a magic number, an envelope, a message.

A message is encoded by the model of the object, so every built-in kind can be read and
written. As in Go, a field that the model does not have is skipped, and the JSON of a
message has no zeros that Go's JSON leaves out (runtime/serializer/protobuf).
"""

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.times import format_time, parse_rfc3339
from controller_manager.devcluster.schema.models import Field, Model, Models, Type

MAGIC: Final = b"k8s\x00"
MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT: Final = (1 << 64) - 1
_ONE_BYTE: Final = tuple(bytes((each,)) for each in range(0x80))
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_DEEPEST: Final = 100
"""The nesting of messages that is still decoded; the types of the API are less deep."""

_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_SCHEMA: Final = f"{_EXTENSIONS}.JSONSchemaProps"


class ProtobufError(ValueError):
    """A message that cannot be decoded, or a value that no message can hold."""


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
            return result & _MAX_VARINT, position


def write_varint(value: int) -> bytes:
    """Return a number as a varint; a negative one takes ten bytes."""
    if 0 <= value < len(_ONE_BYTE):
        return _ONE_BYTE[value]
    value &= _MAX_VARINT
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_bytes(number: int, value: bytes) -> bytes:
    """Return a field of type string, bytes or message."""
    return write_varint(number << 3 | _BYTES) + write_varint(len(value)) + value


def write_number(number: int, value: int) -> bytes:
    """Return a field of an integer type or a boolean."""
    return write_varint(number << 3 | _VARINT) + write_varint(value)


def write_text(number: int, value: str) -> bytes:
    """Return a field of type string, nothing if it is empty."""
    return write_bytes(number, value.encode()) if value else b""


# Objects


def decode(body: bytes, models: Models, wanted: str = "") -> JSON:
    """Return the object in a body, in the form of its JSON.

    The content of an object that is not of the kind `wanted` is left out, as it is
    refused anyway. Raises ProtobufError for a broken message, and for a kind without a
    model.
    """
    if not body.startswith(MAGIC):
        msg = "the body does not begin with the magic number of Kubernetes' protobuf"
        raise ProtobufError(msg)
    envelope = dict(read_fields(body[len(MAGIC) :]))
    meta = dict(read_fields(_as_bytes(envelope.get(1, b""))))
    kind, version = _text(meta.get(2, b"")), _text(meta.get(1, b""))
    name = models.find(version, kind)
    if name is None:
        msg = f"{kind} of {version} can be sent as JSON only"
        raise ProtobufError(msg)
    if wanted and kind != wanted:
        return {"apiVersion": version, "kind": kind}
    message = _as_bytes(envelope.get(2, b""))
    obj = _Decoder(models).message(name, message, 0)
    return {"apiVersion": version, "kind": kind, **obj}


def encode(obj: JSON, models: Models) -> bytes | None:
    """Return an object with its envelope; `None` if its kind has no model.

    Raises ProtobufError for a value of a type that the model does not allow.
    """
    version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    name = models.find(version, kind)
    if name is None:
        return None
    try:
        message = _Encoder(models).message(name, obj)
    except (AttributeError, TypeError, ValueError) as error:
        msg = f"{kind} of {version} has a value of a wrong type: {error}"
        raise ProtobufError(msg) from None
    except RecursionError:
        msg = f"{kind} of {version} is nested too deeply for protobuf"
        raise ProtobufError(msg) from None
    meta = write_text(1, version) + write_text(2, kind)
    return b"".join(
        (
            *(MAGIC, write_bytes(1, meta), write_bytes(2, message)),
            *(write_bytes(3, b""), write_bytes(4, b"")),
        )
    )


def encode_event(event_type: str, obj: bytes) -> bytes:
    """Return a frame of a watch: the length, and a WatchEvent with the object."""
    event = write_text(1, event_type) + write_bytes(2, write_bytes(1, obj))
    return struct.pack(">I", len(event)) + event


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        msg = "a message was expected, not a number"
        raise ProtobufError(msg)
    return value


def _signed(value: int | bytes) -> int:
    if not isinstance(value, int):
        msg = "a number was expected, not a message"
        raise ProtobufError(msg)
    return value - (1 << 64) if value >> 63 else value


def _text(value: int | bytes) -> str:
    return _as_bytes(value).decode()


class _Decoder:
    """Decodes messages by their models."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def message(self, name: str, data: bytes, depth: int) -> Any:
        """Return the JSON of a message; raises ProtobufError."""
        if depth > _DEEPEST:
            msg = "the messages are nested too deeply"
            raise ProtobufError(msg)
        if special := getattr(self, f"_{_short(name)}", None):
            return special(data, depth)
        model = self._models.model(name)
        obj: JSON = {}
        self._read(obj, model, (), data, depth)
        return _without_zeros(obj, model)

    def _read(
        self, obj: JSON, model: Model, place: tuple[int, ...], data: bytes, depth: int
    ) -> None:
        """Read the fields of a message, or of one that is embedded at a place."""
        for number, value in read_fields(data):
            here = (*place, number)
            if here in model.embedded:
                self._read(obj, model, here, _as_bytes(value), depth)
            elif found := model.by_number.get(here):
                self._set(obj, *found, value, depth)

    def _set(
        self, obj: JSON, name: str, field: Field, value: int | bytes, depth: int
    ) -> None:
        if field.items is not None:
            items = obj.setdefault(name, [])
            items += self._items(field.items, value, depth)
        elif field.values is not None:
            entry = dict(read_fields(_as_bytes(value)))
            value = entry.get(2, b"" if _is_in_bytes(field.values) else 0)
            key = _text(entry.get(1, b""))
            obj.setdefault(name, {})[key] = self._value(field.values, value, depth)
        else:
            obj[name] = self._value(field, value, depth)

    def _items(self, of: Type, value: int | bytes, depth: int) -> list[Any]:
        """Return the items of a list; numbers may be packed into one field."""
        if isinstance(value, bytes) and not _is_in_bytes(of):
            found, position = [], 0
            while position < len(value):
                number, position = _varint(value, position)
                found.append(self._value(of, number, depth))
            return found
        return [self._value(of, value, depth)]

    def _value(self, of: Type, value: int | bytes, depth: int) -> Any:
        if of.ref:
            return self.message(of.ref, _as_bytes(value), depth + 1)
        if of.items is not None:  # a list as the value of a map is a message
            return [
                self._value(of.items, each, depth + 1)
                for _, each in read_fields(_as_bytes(value))
            ]
        match of.type:
            case "integer" if isinstance(value, int):
                return _signed(value)
            case "boolean" if isinstance(value, int):
                return bool(value)
            case "number" if isinstance(value, bytes) and len(value) == 8:
                return struct.unpack("<d", value)[0]
            case "string" if of.format == "byte":
                return base64.b64encode(_as_bytes(value)).decode()
            case "string":
                return _text(value)
        msg = f"a field of type {of.type} has a value of another type"
        raise ProtobufError(msg)

    # Types with a form of their own

    def _Time(self, data: bytes, _: int) -> str | None:  # noqa: N802 - a model's name
        if not data:
            return None  # Go's zero time
        seconds = _signed(dict(read_fields(data)).get(1, 0))
        try:
            return format_time(_EPOCH + timedelta(seconds=seconds))
        except OverflowError:
            msg = f"a time has {seconds} seconds"
            raise ProtobufError(msg) from None

    def _MicroTime(self, data: bytes, depth: int) -> str | None:  # noqa: N802
        text = self._Time(data, depth)
        nanos = _signed(dict(read_fields(data)).get(2, 0))
        if not 0 <= nanos < 1_000_000_000:
            msg = f"a time has {nanos} nanoseconds"
            raise ProtobufError(msg)
        return f"{text.removesuffix('Z')}.{nanos // 1000:06}Z" if text else None

    def _Quantity(self, data: bytes, _: int) -> str:  # noqa: N802
        return _text(dict(read_fields(data)).get(1, b"")) or "0"

    def _IntOrString(self, data: bytes, _: int) -> Any:  # noqa: N802
        fields = dict(read_fields(data))
        if fields.get(1):
            return _text(fields.get(3, b""))
        return _signed(fields.get(2, 0))

    def _raw(self, data: bytes, _: int) -> Any:
        """Return the value of a message that holds JSON."""
        text = _as_bytes(dict(read_fields(data)).get(1, b""))
        try:
            return msgspec.json.decode(text or b"null")
        except (msgspec.DecodeError, RecursionError) as error:
            msg = f"a field has no JSON: {error}"
            raise ProtobufError(msg) from None

    _FieldsV1 = _JSON = _RawExtension = _raw

    def _Verbs(self, data: bytes, _: int) -> list[str]:  # noqa: N802
        return [_text(value) for _, value in read_fields(data)]

    def _JSONSchemaPropsOrArray(self, data: bytes, depth: int) -> Any:  # noqa: N802
        schemas = [
            (number, self.message(_SCHEMA, _as_bytes(value), depth + 1))
            for number, value in read_fields(data)
        ]
        if schemas and schemas[0][0] == 1:
            return schemas[0][1]
        return [schema for _, schema in schemas]

    def _JSONSchemaPropsOrBool(self, data: bytes, depth: int) -> Any:  # noqa: N802
        fields = dict(read_fields(data))
        if 2 in fields:
            return self.message(_SCHEMA, _as_bytes(fields[2]), depth + 1)
        return bool(fields.get(1))

    def _JSONSchemaPropsOrStringArray(self, data: bytes, depth: int) -> Any:  # noqa: N802
        fields = list(read_fields(data))
        if fields and fields[0][0] == 1:
            return self.message(_SCHEMA, _as_bytes(fields[0][1]), depth + 1)
        return [_text(value) for _, value in fields]


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _is_in_bytes(of: Type) -> bool:
    """Tell whether a value of a type has a length on the wire."""
    return of.type not in ("integer", "boolean", "number")


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


class _Encoder:
    """Encodes messages by their models."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def message(self, name: str, value: Any) -> bytes:
        """Return the message of a value; raises TypeError or ValueError."""
        if special := getattr(self, f"_{_short(name)}", None):
            return cast("bytes", special(value))
        return self._fields(self._models.model(name), value, ())

    def _fields(self, model: Model, obj: JSON, place: tuple[int, ...]) -> bytes:
        """Return the fields of a message, or of one that is embedded at a place."""
        out = []
        for where, (name, field) in sorted(model.by_number.items()):
            value = obj.get(name)
            if where[:-1] == place and value is not None:
                out.append(self._field(field.number, field, value))
        out += [
            write_bytes(each[-1], self._fields(model, obj, each))
            for each in sorted(model.embedded)
            if each[:-1] == place
        ]
        return b"".join(out)

    def _field(self, number: int, field: Type, value: Any) -> bytes:
        if field.items is not None:
            return b"".join(self._field(number, field.items, each) for each in value)
        if field.values is not None:
            return b"".join(
                write_bytes(
                    number,
                    write_bytes(1, key.encode())
                    + self._field(2, _as_entry(field.values), each),
                )
                for key, each in sorted(value.items())
            )
        if field.ref:
            return write_bytes(number, self.message(field.ref, value))
        match field.type:
            case "integer" | "boolean":
                return write_number(number, int(value))
            case "number":
                packed = struct.pack("<d", value)
                return write_varint(number << 3 | _FIXED64) + packed
            case "list":
                return write_bytes(number, self._Verbs(value))
        if field.format == "byte":
            return write_bytes(number, base64.b64decode(value))
        return write_bytes(number, value.encode())

    # Types with a form of their own

    def _Time(self, value: str) -> bytes:  # noqa: N802 - a model's name
        return write_number(1, _seconds(parse_rfc3339(value))) + write_number(2, 0)

    def _MicroTime(self, value: str) -> bytes:  # noqa: N802
        time = parse_rfc3339(value)
        nanos = time.microsecond * 1000
        return write_number(1, _seconds(time)) + write_number(2, nanos)

    def _Quantity(self, value: str | float) -> bytes:  # noqa: N802
        return write_bytes(1, str(value).encode())

    def _IntOrString(self, value: str | int) -> bytes:  # noqa: N802
        if isinstance(value, str):
            head = write_number(1, 1) + write_number(2, 0)
            return head + write_bytes(3, value.encode())
        return write_number(1, 0) + write_number(2, value) + write_bytes(3, b"")

    def _raw(self, value: Any) -> bytes:
        return write_bytes(1, msgspec.json.encode(value))

    _FieldsV1 = _JSON = _RawExtension = _raw

    def _Verbs(self, value: list[str]) -> bytes:  # noqa: N802
        return b"".join(write_bytes(1, each.encode()) for each in value)

    def _JSONSchemaPropsOrArray(self, value: Any) -> bytes:  # noqa: N802
        if isinstance(value, list):
            return b"".join(
                write_bytes(2, self.message(_SCHEMA, each)) for each in value
            )
        return write_bytes(1, self.message(_SCHEMA, value))

    def _JSONSchemaPropsOrBool(self, value: Any) -> bytes:  # noqa: N802
        if isinstance(value, bool):
            return write_number(1, value)
        return write_number(1, 1) + write_bytes(2, self.message(_SCHEMA, value))

    def _JSONSchemaPropsOrStringArray(self, value: Any) -> bytes:  # noqa: N802
        if isinstance(value, list):
            return b"".join(write_bytes(2, each.encode()) for each in value)
        return write_bytes(1, self.message(_SCHEMA, value))


def _seconds(time: datetime) -> int:
    """Return the whole seconds since 1970, negative before that."""
    return (time - _EPOCH) // timedelta(seconds=1)


def _as_entry(of: Type) -> Type:
    """Return the type of a value of a map: a list of texts is a message there."""
    return Type(type="list") if of.items is not None else of
