"""Values, as expressions compute with them.

An int is an `int`, a double a `float`, a list a `list`, a map a `dict`, a timestamp a
`datetime`, a duration a `timedelta`, null is `None`. The others have types here.
"""

from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, Final
from urllib.parse import SplitResult

from msgspec import Struct

from controller_manager.api.quantity import Quantity

Address = IPv4Address | IPv6Address
Network = IPv4Interface | IPv6Interface

Value = Any
"""The value of an expression."""

MOST_INT: Final = 2**63 - 1
MOST_UINT: Final = 2**64 - 1


class EvaluationError(Exception):
    """An expression has no value; the message is that of cel-go."""


class UInt(int):
    """A whole number without sign."""


class Message(dict[str, Any]):
    """The fields of a message, whose type has the name `type`."""

    def __init__(self, type_: str, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.type = type_


class TypeName(Struct, frozen=True):
    """The type of a value, which is a value, too."""

    name: str


class Maybe(Struct, frozen=True):
    """A value that may be absent (``optional_type``): a list of one, or of none."""

    values: tuple[Value, ...] = ()


NOTHING: Final = Maybe()

_TYPES: Final[dict[type, str]] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    datetime: "google.protobuf.Timestamp",
    timedelta: "google.protobuf.Duration",
    TypeName: "type",
    Maybe: "optional_type",
    Quantity: "kubernetes.Quantity",
    SplitResult: "kubernetes.URL",
    IPv4Address: "net.IP",
    IPv6Address: "net.IP",
    IPv4Interface: "net.CIDR",
    IPv6Interface: "net.CIDR",
}


def type_of(value: Value) -> str:
    """Return the name of a value's type."""
    if isinstance(value, Message):
        return value.type
    return "map" if isinstance(value, dict) else _TYPES[type(value)]


def no_overload() -> EvaluationError:
    """Return the error of an operation that is not defined for its operands."""
    return EvaluationError("no such overload")


def whole(value: int) -> int:
    """Return an int if it has 64 bits; raises EvaluationError."""
    if not -MOST_INT - 1 <= value <= MOST_INT:
        msg = "integer overflow"
        raise EvaluationError(msg)
    return value


def is_number(value: Value) -> bool:
    """Tell whether a value is an int, a uint or a double."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def are_equal(one: Value, other: Value) -> bool:
    """Compare two values; numbers of different types may be equal."""
    if is_number(one) and is_number(other):
        return bool(one == other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(are_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            are_equal(each, other[name]) for name, each in one.items()
        )
    if isinstance(one, Maybe) and isinstance(other, Maybe):
        return are_equal([*one.values], [*other.values])
    return type(one) is type(other) and bool(one == other)


def contains(values: Value, wanted: Value) -> bool:
    """Tell whether a list has an item, or a map a key; raises EvaluationError."""
    if isinstance(values, dict):
        return is_key(wanted) and wanted in values
    if isinstance(values, list):
        return any(are_equal(each, wanted) for each in values)
    raise no_overload()


def is_key(value: Value) -> bool:
    """Tell whether a value can be the key of a map."""
    return isinstance(value, str | int | float)
