"""Encodes the messages of objects, as Go's protobuf does."""

import base64
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_rfc3339

from .models import Model, Models, Type
from .wire import (
    BYTES,
    FIXED64,
    VARINT,
    write_bytes,
    write_number,
    write_tag,
    write_varint,
)

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
        """Return the function for a model, or for the part embedded at a place."""
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
    """Return a function that puts a tag and the length before an encoded value."""
    tag = write_tag(number, BYTES)

    def write(value: Any) -> bytes:
        content = encode(value)
        return tag + write_varint(len(content)) + content

    return write


def _texts(values: list[str]) -> bytes:
    return b"".join(write_bytes(1, each.encode()) for each in values)
