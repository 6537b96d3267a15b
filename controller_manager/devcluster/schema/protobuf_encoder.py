"""Encodes the messages of objects, as Go's protobuf does."""

import base64
import struct
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.times import parse_rfc3339
from controller_manager.devcluster.schema.models import Model, Models, Type
from controller_manager.devcluster.schema.wire import (
    FIXED64,
    write_bytes,
    write_number,
    write_varint,
)

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_SCHEMA: Final = (
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
)


class Encoder:
    """Encodes messages by their models."""

    def __init__(self, models: Models) -> None:
        """Take the models."""
        self._models = models

    def message(self, name: str, value: Any) -> bytes:
        """Return the message of a value; raises TypeError or ValueError."""
        if special := getattr(self, f"_{name.rpartition('.')[2]}", None):
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
                return write_varint(number << 3 | FIXED64) + packed
            case "list":
                return write_bytes(
                    number, b"".join(write_bytes(1, each.encode()) for each in value)
                )
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
