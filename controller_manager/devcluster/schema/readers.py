"""Readers of the values of each type, as Go decodes and encodes them.

Upstream: encoding/json, and UnmarshalJSON of quantities, times, numbers or texts, and
of the types of apiextensions that have more than one form.
"""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, Final, Protocol

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import QuantityError, parse_quantity
from controller_manager.api.scalars import format_micro_time, format_time, parse_rfc3339

from .base64_data import base64_problem
from .duplicates import plain
from .go_times import RFC3339, RFC3339_MICRO, time_problem
from .go_types import QUANTITY, go_type
from .models import Field, Type, built_in

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_SCHEMA: Final = f"{_EXTENSIONS}JSONSchemaProps"


class TypeMismatch(ValueError):
    """A value has the wrong type; the message is that of Go."""


class Absent:
    """The result for a value of a wrong type."""

    def __bool__(self) -> bool:
        """Return False, as a zero value."""
        return False


ABSENT: Final = Absent()


class Reading(Protocol):
    """The decoding of one object, which knows where in the object it is."""

    def struct(self, obj: JSON, model: str) -> JSON:
        """Read the fields of a struct."""

    def items(self, values: list[Any], item: Type, read: "Read") -> list[Any]:
        """Read the items of a list."""

    def entries(self, values: JSON, item: Type, read: "Read") -> JSON:
        """Read the values of a map."""

    def silently(self, value: JSON, model: str) -> JSON:
        """Read a struct without regard to unknown fields."""

    def mismatch(self, value: Any, wanted: str) -> Any:
        """Note a value of another type than is `wanted`, and return ABSENT."""

    def wrong_text(self, value: Any, wanted: str) -> TypeMismatch:
        """Return the error of a wrong value that ends the decoding."""


Read = Callable[[Reading, Any], Any]


_EXACT: Final[dict[str, type]] = {"string": str, "boolean": bool}


class Plan:
    """The way to read one field: its reader, and the treatment of a zero value.

    Values of the class `exact` are taken as they are.
    """

    __slots__ = ("exact", "keeps", "read")

    def __init__(self, field: Field) -> None:
        """Choose the reader of the field."""
        self.read = reader(field)
        is_scalar = not field.format
        self.exact = _EXACT.get(field.type) if is_scalar else None
        # Empty lists and maps do not survive the protobuf of the storage.
        is_collection = field.items is not None or field.values is not None
        omits = is_collection or (field.omitempty and not field.pointer)
        self.keeps = bool(field.ref) or not omits


@cache
def plans(model: str) -> dict[str, Plan]:
    """Return the ways to read the fields of a built-in model, by name."""
    fields = built_in().model(model).fields
    return {name: Plan(field) for name, field in fields.items()}


def reader(of: Type) -> Read:
    """Return the function that reads values of a type."""
    if of.items is not None:
        return _list(of)
    if of.values is not None:
        return _map(of)
    if of.ref:
        return _READERS.get(of.ref) or _struct(of.ref)
    return _SCALARS[of.type, of.format]


def zero(of: Type) -> Any:
    """Return the value of a null among the items of a list or map."""
    if of.items is not None:
        return []
    if of.values is not None:
        return {}
    if of.ref:
        return _ZERO_REFS.get(of.ref, {})
    return {"string": "", "boolean": False}.get(of.type, 0)


_ZERO_REFS: Final = {
    QUANTITY: "0",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": 0,
    f"{_EXTENSIONS}JSON": None,
    f"{_META}Time": None,
    f"{_META}MicroTime": None,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": None,
}


def _list(of: Type) -> Read:
    item = of.items
    assert item is not None  # noqa: S101 - lists have a type of items
    wanted, read = go_type(of), reader(item)

    def read_list(reading: Reading, value: Any) -> Any:
        if not isinstance(value, list):
            return reading.mismatch(value, wanted)
        return reading.items(value, item, read)

    return read_list


def _map(of: Type) -> Read:
    item = of.values
    assert item is not None  # noqa: S101 - maps have a type of values
    wanted, read = go_type(of), reader(item)

    def read_map(reading: Reading, value: Any) -> Any:
        if not isinstance(value, dict):
            return reading.mismatch(value, wanted)
        return reading.entries(value, item, read)

    return read_map


def _struct(model: str) -> Read:
    wanted = go_type(Type(ref=model))

    def read_struct(reading: Reading, value: Any) -> Any:
        if not isinstance(value, dict):
            return reading.mismatch(value, wanted)
        return reading.struct(value, model)

    return read_struct


def _text(reading: Reading, value: Any) -> Any:
    return value if isinstance(value, str) else reading.mismatch(value, "string")


def _bool(reading: Reading, value: Any) -> Any:
    return value if isinstance(value, bool) else reading.mismatch(value, "bool")


def _bytes(reading: Reading, value: Any) -> Any:
    if not isinstance(value, str):
        return reading.mismatch(value, "[]uint8")
    if problem := base64_problem(value):
        raise TypeMismatch(problem)
    return value


def _int32(reading: Reading, value: Any) -> Any:
    if type(value) is int and -(2**31) <= value < 2**31:
        return value
    return reading.mismatch(value, "int32")


def _int64(reading: Reading, value: Any) -> Any:
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    return reading.mismatch(value, "int64")


def _double(reading: Reading, value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return reading.mismatch(value, "float64")


def _int_or_string(reading: Reading, value: Any) -> Any:
    if isinstance(value, str):
        return value
    if type(value) is int and -(2**31) <= value < 2**31:
        return value
    raise reading.wrong_text(value, "int32")


def _quantity(reading: Reading, value: Any) -> str:
    """Return a quantity in canonical form; the value may be a number."""
    del reading
    # Any other value is no quantity, and is refused as the text of its JSON.
    text = value if isinstance(value, str) else str(value)
    try:
        return str(parse_quantity(text))
    except QuantityError as error:
        raise TypeMismatch(str(error)) from error


def _time(reading: Reading, value: Any) -> str:
    """Return a time in seconds of UTC."""
    found = _instant(reading, value, RFC3339)
    return value if _is_normal(value, 20) else format_time(found)


def _micro_time(reading: Reading, value: Any) -> str:
    """Return a time in microseconds of UTC."""
    found = _instant(reading, value, RFC3339_MICRO)
    return value if _is_normal(value, 27) else format_micro_time(found)


def _is_normal(text: str, length: int) -> bool:
    return len(text) == length and text[-1] == "Z"


def _instant(reading: Reading, value: Any, layout: str) -> datetime:
    if not isinstance(value, str):
        raise reading.wrong_text(value, "string")
    try:
        return parse_rfc3339(value)
    except ValueError as error:
        raise TypeMismatch(time_problem(value, layout)) from error


def _raw(reading: Reading, value: Any) -> Any:
    """Return any value, in which Go does not look for fields."""
    del reading
    return plain(value)


def _schema_or(other: type) -> Read:
    """Return the reader of a schema in whose place another value may stand."""

    def read_schema(reading: Reading, value: Any) -> Any:
        if isinstance(value, dict):
            return reading.silently(value, _SCHEMA)
        if other is list and isinstance(value, list):
            return reading.items(value, Type(ref=_SCHEMA), read_schema)
        if isinstance(value, other):
            return value
        return reading.mismatch(value, "v1.JSONSchemaProps")

    return read_schema


_SCALARS: Final[dict[tuple[str, str], Read]] = {
    ("string", ""): _text,
    ("string", "byte"): _bytes,
    ("boolean", ""): _bool,
    ("integer", "int32"): _int32,
    ("integer", "int64"): _int64,
    ("number", "double"): _double,
}

_READERS: Final[dict[str, Read]] = {
    QUANTITY: _quantity,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw,
    f"{_META}Time": _time,
    f"{_META}MicroTime": _micro_time,
    f"{_META}FieldsV1": _raw,
    f"{_EXTENSIONS}JSON": _raw,
    f"{_EXTENSIONS}JSONSchemaPropsOrArray": _schema_or(list),
    f"{_EXTENSIONS}JSONSchemaPropsOrBool": _schema_or(bool),
    f"{_EXTENSIONS}JSONSchemaPropsOrStringArray": _schema_or(list),
}
