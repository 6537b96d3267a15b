"""Encodes the messages of objects, as Go's protobuf does."""

import base64
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_rfc3339

from .models import Model, Models, Type
from .protobuf_decoder import (
    BYTES,
    FIXED64,
    VARINT,
    Decoder,
    ProtobufError,
    read_fields,
    text_of,
    write_bytes,
    write_number,
    write_tag,
    write_text,
    write_varint,
)

# Encodes the messages of objects, as Go's protobuf does.

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_SCHEMA: Final = (
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
)


Write = Callable[[Any], bytes]
"""Encodes a value that is not null."""


class Encoder:
    """Encodes messages by their models.

    The functions that encode a model are made when it is first needed.
    """

    def __init__(self, models: Models) -> None:
        self._models = models
        self._known: dict[str, Write] = {}

    def message(self, name: str, value: Any) -> bytes:
        """Return the message of a value; raises TypeError or ValueError."""
        if (write := self._known.get(name)) is None:
            special = getattr(self, f"_{name.rpartition('.')[2]}", None)
            write = special or self._of_model(self._models.model(name), ())
            self._known[name] = write
        return write(value)

    def _of_model(self, model: Model, place: tuple[int, ...]) -> Write:
        fields = {
            name: (field.number, self._of_field(field.number, field))
            for where, (name, field) in model.by_number.items()
            if where[:-1] == place
        }
        embedded = [
            (each[-1], write_tag(each[-1], BYTES), self._of_model(model, each))
            for each in model.embedded
            if each[:-1] == place
        ]

        def write(obj: JSON) -> bytes:
            out = [
                (found[0], found[1](value))
                for name, value in obj.items()
                if value is not None and (found := fields.get(name))
            ]
            for number, tag, inner in embedded:
                content = inner(obj)
                out.append((number, tag + write_varint(len(content)) + content))
            return b"".join(content for _, content in sorted(out))

        return write

    def _of_field(self, number: int, of: Type) -> Write:
        if of.items is not None:
            one = self._of_field(number, of.items)
            return lambda values: b"".join(map(one, values))
        if of.values is not None:
            return self._of_map(number, of.values)
        if ref := of.ref:
            return _with_length(number, lambda value: self.message(ref, value))
        if of.type in ("integer", "boolean"):
            tag = write_tag(number, VARINT)
            return lambda value: tag + write_varint(int(value))
        if of.type == "number":
            tag = write_tag(number, FIXED64)
            return lambda value: tag + struct.pack("<d", value)
        if of.format == "byte":
            return _with_length(number, base64.b64decode)
        return _with_length(number, str.encode)

    def _of_map(self, number: int, of: Type) -> Write:
        tag = write_tag(number, BYTES)
        # A list as the value of a map is a message.
        encode = _with_length(2, _texts) if of.items else self._of_field(2, of)

        def write(entries: dict[str, Any]) -> bytes:
            out: list[bytes] = []
            for key, value in sorted(entries.items()):
                content = write_bytes(1, key.encode()) + encode(value)
                out += (tag, write_varint(len(content)), content)
            return b"".join(out)

        return write

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
        return _texts(value)

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


def _with_length(number: int, encode: Write) -> Write:
    tag = write_tag(number, BYTES)

    def write(value: Any) -> bytes:
        content = encode(value)
        return tag + write_varint(len(content)) + content

    return write


def _texts(values: list[str]) -> bytes:
    return b"".join(write_bytes(1, each.encode()) for each in values)


# Objects as Kubernetes' protobuf: a magic number, an envelope, a message.

MAGIC: Final = b"k8s\x00"
MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"

_ENVELOPE: Final = {1: "TypeMeta", 2: "Raw", 3: "ContentEncoding", 4: "ContentType"}
_TYPE_META: Final = {1: "APIVersion", 2: "Kind"}


class Envelope:
    """An object that is not decoded yet; `version` and `kind` tell its type."""

    def __init__(self, body: bytes, version: str = "", kind: str = "") -> None:
        """Open the envelope in a body; raises ProtobufError.

        An envelope that lacks a version or kind has the given ones.
        """
        if not body:
            raise ProtobufError("empty data")
        if not body.startswith(MAGIC):
            raise ProtobufError(
                "provided data does not appear to be a protobuf message, expected "
                f"prefix [{' '.join(map(str, MAGIC))}]"
            )
        if len(body) == len(MAGIC):
            raise ProtobufError("empty body")
        fields = _contents(body[len(MAGIC) :], "Unknown", _ENVELOPE)
        meta = _contents(fields.get(1, b""), "TypeMeta", _TYPE_META)
        self.version = text_of(meta.get(1, b"")) or version
        self.kind = text_of(meta.get(2, b"")) or kind
        self._message = fields.get(2, b"")

    def decoded(self, models: Models) -> JSON:
        """Return the object in the form of its JSON; raises ProtobufError."""
        name = models.find(self.version, self.kind)
        if name is None:
            raise ProtobufError(
                f'no kind "{self.kind}" is registered for version "{self.version}" in '
                'scheme "pkg/api/legacyscheme/scheme.go:30"'
            )
        obj = _decoder(models).message(name, self._message)
        return {"apiVersion": self.version, "kind": self.kind, **obj}


def _contents(data: bytes, message: str, names: dict[int, str]) -> dict[int, bytes]:
    """Return the fields of a message that has only texts and messages."""
    found = {}
    for number, wire, content in read_fields(data, message):
        if number in names:
            if wire != BYTES:
                msg = f"proto: wrong wireType = {wire} for field {names[number]}"
                raise ProtobufError(msg)
            found[number] = content
    return found


def decode(body: bytes, models: Models) -> JSON:
    """Return the object in a body, in the form of its JSON; raises ProtobufError."""
    return Envelope(body).decoded(models)


def encode(obj: JSON, models: Models) -> bytes | None:
    """Return an object with its envelope; `None` if its kind has no model.

    Raises ProtobufError for a value of a type that the model does not allow.
    """
    version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    name = models.find(version, kind)
    if name is None:
        return None
    try:
        message = _encoder(models).message(name, obj)
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


@cache
def _decoder(models: Models) -> Decoder:
    return Decoder(models)


@cache
def _encoder(models: Models) -> Encoder:
    return Encoder(models)


def encode_event(event_type: str, obj: bytes) -> bytes:
    """Return a frame of a watch: the length, and a WatchEvent with the object."""
    event = write_text(1, event_type) + write_bytes(2, write_bytes(1, obj))
    return struct.pack(">I", len(event)) + event
