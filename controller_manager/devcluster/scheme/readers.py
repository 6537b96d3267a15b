"""Readers of the values of each type, with the words of Go's errors."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import QuantityError, parse_quantity
from controller_manager.api.scalars import format_micro_time, format_time, parse_rfc3339

from .models import Field, Type, built_in

if TYPE_CHECKING:
    from .decoding import Decoder

# Finds fields that stand twice in an object of a body in JSON.

_OPERATION: Final = frozenset(("op", "path", "from", "value"))
"""The fields of an operation of a JSON patch."""


class Repeated(dict[str, Any]):
    """An object in which a name stands more than once; `pairs` are all its fields."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def with_repeated(value: Any, body: bytes) -> Any:
    """Return the value of a body, in which objects with repeated names are Repeated.

    `value` is the decoded body, which is decoded again if names may be repeated.
    """
    if repeats_nothing(value, body):
        return value
    return json.loads(body, object_pairs_hook=_object)


def repeats_nothing(value: Any, body: bytes) -> bool:
    """Tell whether a body is JSON that is equal to its encoded value, but for spaces.

    No name of such a body is repeated. `value` is the decoded body.
    """
    try:
        encoded = msgspec.json.encode(value)
        return encoded == body or encoded == msgspec.json.format(body, indent=-1)
    except (msgspec.DecodeError, RecursionError):
        return False  # the body is YAML, or very deep


def _object(pairs: list[tuple[str, Any]]) -> JSON:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Repeated(pairs)


def duplicates(value: Any) -> list[str]:
    """Return the repeated fields in a value, in upstream's words."""
    found = (f'duplicate field "{path}"' for path in _duplicates(value, ""))
    return list(dict.fromkeys(found))


def json_patch_problems(patch: Any) -> list[str]:
    """Return the unknown and the repeated fields of the operations of a JSON patch."""
    found = [
        f"json patch {problem}"
        for number, each in enumerate(patch if isinstance(patch, list) else ())
        if isinstance(each, dict)
        for problem in _operation_problems(each, f"[{number}]")
    ]
    return list(dict.fromkeys(found))


def _operation_problems(operation: JSON, path: str) -> Iterator[str]:
    for name in operation:
        if name not in _OPERATION:
            yield f'unknown field "{path}.{name}"'
    known = {f"{path}.{name}" for name in operation if name not in _OPERATION}
    for where in _duplicates(operation, path):
        if where not in known:
            yield f'duplicate field "{where}"'


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from _duplicates(each, f"{path}[{number}]")
    if not isinstance(value, dict):
        return
    seen: set[str] = set()
    pairs = value.pairs if isinstance(value, Repeated) else value.items()
    for name, each in pairs:
        where = f"{path}.{name}" if path else name
        if name in seen:
            yield where
        seen.add(name)
        yield from _duplicates(each, where)


def plain(value: Any) -> Any:
    """Return a value whose objects have the last value of each name only."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


# Names of types and values in the errors of Go.

_GO_NAMES: Final = {
    ("string", "byte"): "[]uint8",
    ("string", ""): "string",
    ("integer", "int32"): "int32",
    ("integer", "int64"): "int64",
    ("number", "double"): "float64",
    ("boolean", ""): "bool",
}
QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"


def _go_type(of: Type) -> str:
    """Return the name of a type in Go: its package and its name."""
    if of.items is not None:
        return f"[]{_go_type(of.items)}"
    if of.values is not None:
        if of.values.ref == QUANTITY:
            return "v1.ResourceList"
        return f"map[string]{_go_type(of.values)}"
    if of.ref:
        return ".".join(of.ref.rsplit(".", 2)[1:])
    return _GO_NAMES[of.type, of.format]


def go_kind(value: Any, wanted: str) -> str:
    """Return the word for a value of JSON that is not of the `wanted` type."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        # A whole number names a number that is no such number, or too great.
        return f"number {value}" if wanted in ("int32", "int64") else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


# Errors in times, in the words of Go.

RFC3339: Final = "2006-01-02T15:04:05Z07:00"
RFC3339_MICRO: Final = "2006-01-02T15:04:05.000000Z07:00"

_ELEMENTS: Final = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d\d"),
    ("-", "-"),
    ("02", r"\d\d"),
    ("T", "T"),
    ("15", r"\d\d?"),
    (":", ":"),
    ("04", r"\d\d"),
    (":", ":"),
    ("05", r"\d\d"),
)
_ZONE: Final = ("Z07:00", r"Z|[+-]\d\d:\d\d")
_OPTIONAL_FRACTION: Final = ("", r"([.,]\d+)?")
_MICROSECONDS: Final = (".000000", r"[.,]\d{6}(?!\d)")
_RANGES: Final = (("month", 2, 1, 12), ("day", 4, 1, 31), ("hour", 6, 0, 23))
_MORE_RANGES: Final = (("minute", 8, 0, 59), ("second", 10, 0, 59))


def _time_problem(text: str, layout: str) -> str:
    """Return the error of a text that is no time of a layout."""
    fraction = _OPTIONAL_FRACTION if layout == RFC3339 else _MICROSECONDS
    parts = []
    rest = text
    for element, pattern in (*_ELEMENTS, fraction, _ZONE):
        match = re.match(pattern, rest, re.ASCII)
        if match is None:
            return (
                f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as '
                f'"{element}"'
            )
        parts.append(match.group())
        rest = rest[match.end() :]
        if problem := _range_problem(parts):
            return f'parsing time "{text}": {problem}'
    if rest:
        return f'parsing time "{text}": extra text: "{rest}"'
    return f'parsing time "{text}": day out of range'


def _range_problem(parts: list[str]) -> str:
    for name, index, least, most in (*_RANGES, *_MORE_RANGES):
        if index == len(parts) - 1 and not least <= int(parts[index]) <= most:
            return f"{name} out of range"
    return ""


# Base64 as Go decodes it: with padding, and with the place of an error.

_ALPHABET: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
)
_NEW_LINES: Final = b"\r\n"
_PADDING: Final = ord("=")


def base64_problem(text: str) -> str:
    """Return the error in a text in base64, "" if it is valid.

    Upstream: encoding/base64, CorruptInputError of StdEncoding.
    """
    place = _wrong_place(text.encode())
    return "" if place is None else f"illegal base64 data at input byte {place}"


def _wrong_place(data: bytes) -> int | None:
    """Return the index that Go names, `None` for valid base64."""
    count = 0
    for index, each in enumerate(data):
        if each in _ALPHABET:
            count = (count + 1) % 4
        elif each == _PADDING:
            return _wrong_padding(data, index, count)
        elif each not in _NEW_LINES:
            return index
    return len(data) - count if count else None


def _wrong_padding(data: bytes, index: int, count: int) -> int | None:
    """Check the text from the first "=" on, after `count` characters of a group."""
    if count < 2:
        return index
    after = _past_new_lines(data, index + 1)
    if count == 2:
        if after == len(data):
            return len(data)
        if data[after] != _PADDING:
            return after - 1
        after = _past_new_lines(data, after + 1)
    return after if after < len(data) else None


def _past_new_lines(data: bytes, index: int) -> int:
    while index < len(data) and data[index] in _NEW_LINES:
        index += 1
    return index


# Readers of the values of each type, as Go decodes and encodes them.

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_SCHEMA: Final = f"{_EXTENSIONS}JSONSchemaProps"


class TypeMismatch(ValueError):
    """A value has the wrong type; the message is that of Go."""


class _Absent:
    """The result for a value of a wrong type; it counts as a zero value."""

    def __bool__(self) -> bool:
        return False


ABSENT: Final = _Absent()


Read = Callable[["Decoder", Any], Any]
"""Reads a value in the decoding of one object, which knows its place there."""


_EXACT: Final[dict[str, type]] = {"string": str, "boolean": bool}


class _Plan:
    """The way to read one field: its reader, and the treatment of a zero value.

    Values of the class `exact` are taken as they are.
    """

    __slots__ = ("exact", "keeps", "read")

    def __init__(self, field: Field) -> None:
        self.read = _reader(field)
        is_scalar = not field.format
        self.exact = _EXACT.get(field.type) if is_scalar else None
        # Empty lists and maps do not survive the protobuf of the storage.
        is_collection = field.items is not None or field.values is not None
        omits = is_collection or (field.omitempty and not field.pointer)
        self.keeps = bool(field.ref) or not omits


@cache
def plans(model: str) -> dict[str, _Plan]:
    """Return the ways to read the fields of a built-in model, by name."""
    fields = built_in().model(model).fields
    return {name: _Plan(field) for name, field in fields.items()}


def _reader(of: Type) -> Read:
    if of.items is not None:
        return _list(of, of.items)
    if of.values is not None:
        return _map(of, of.values)
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


def _collection(of: Type, class_: type, read: Callable[[Any, Any], Any]) -> Read:
    """Return the reader of a list, a map or a struct."""
    wanted = _go_type(of)

    def read_collection(reading: "Decoder", value: Any) -> Any:
        if not isinstance(value, class_):
            return reading.mismatch(value, wanted)
        return read(reading, value)

    return read_collection


def _list(of: Type, item: Type) -> Read:
    read = _reader(item)
    return _collection(
        of, list, lambda reading, value: reading.items(value, item, read)
    )


def _map(of: Type, item: Type) -> Read:
    read = _reader(item)
    return _collection(
        of, dict, lambda reading, value: reading.entries(value, item, read)
    )


def _struct(model: str) -> Read:
    of = Type(ref=model)
    return _collection(of, dict, lambda reading, value: reading.struct(value, model))


def _scalar(name: str, holds: Callable[[Any], bool]) -> Read:
    """Return the reader of the values that a type of Go, called `name`, holds."""

    def read(reading: "Decoder", value: Any) -> Any:
        return value if holds(value) else reading.mismatch(value, name)

    return read


def _is_int32(value: Any) -> bool:
    return type(value) is int and -(2**31) <= value < 2**31


def _bytes(reading: "Decoder", value: Any) -> Any:
    if not isinstance(value, str):
        return reading.mismatch(value, "[]uint8")
    if problem := base64_problem(value):
        raise TypeMismatch(problem)
    return value


def _int_or_string(reading: "Decoder", value: Any) -> Any:
    if isinstance(value, str) or _is_int32(value):
        return value
    raise reading.wrong_text(value, "int32")


def _quantity(reading: "Decoder", value: Any) -> str:
    """Return a quantity in canonical form; the value may be a number."""
    del reading
    # Any other value is no quantity, and is refused as the text of its JSON.
    text = value if isinstance(value, str) else str(value)
    try:
        return str(parse_quantity(text))
    except QuantityError as error:
        raise TypeMismatch(str(error)) from error


def _time(
    layout: str, length: int, form: Callable[[datetime], str]
) -> Callable[["Decoder", Any], str]:
    """Return the reader of times in UTC; a text of that length stays as it is."""

    def read(reading: "Decoder", value: Any) -> str:
        if not isinstance(value, str):
            raise reading.wrong_text(value, "string")
        try:
            found = parse_rfc3339(value)
        except ValueError as error:
            raise TypeMismatch(_time_problem(value, layout)) from error
        is_normal = len(value) == length and value[-1] == "Z"
        return value if is_normal else form(found)

    return read


def _raw(reading: "Decoder", value: Any) -> Any:
    """Return any value, in which Go does not look for fields."""
    del reading
    return plain(value)


def _schema_or(other: type) -> Read:

    def read_schema(reading: "Decoder", value: Any) -> Any:
        if isinstance(value, dict):
            return reading.silently(value, _SCHEMA)
        if other is list and isinstance(value, list):
            return reading.items(value, Type(ref=_SCHEMA), read_schema)
        if isinstance(value, other):
            return value
        return reading.mismatch(value, "v1.JSONSchemaProps")

    return read_schema


_SCALARS: Final[dict[tuple[str, str], Read]] = {
    ("string", ""): _scalar("string", lambda value: isinstance(value, str)),
    ("string", "byte"): _bytes,
    ("boolean", ""): _scalar("bool", lambda value: isinstance(value, bool)),
    ("integer", "int32"): _scalar("int32", _is_int32),
    ("integer", "int64"): _scalar(
        "int64", lambda value: type(value) is int and -(2**63) <= value < 2**63
    ),
    ("number", "double"): _scalar("float64", lambda value: type(value) in (int, float)),
}

_READERS: Final[dict[str, Read]] = {
    QUANTITY: _quantity,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw,
    f"{_META}Time": _time(RFC3339, 20, format_time),
    f"{_META}MicroTime": _time(RFC3339_MICRO, 27, format_micro_time),
    f"{_META}FieldsV1": _raw,
    f"{_EXTENSIONS}JSON": _raw,
    f"{_EXTENSIONS}JSONSchemaPropsOrArray": _schema_or(list),
    f"{_EXTENSIONS}JSONSchemaPropsOrBool": _schema_or(bool),
    f"{_EXTENSIONS}JSONSchemaPropsOrStringArray": _schema_or(list),
}
