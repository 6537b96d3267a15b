"""Values of expressions, their literals, and the operators with two operands.

Upstream: common/types of cel-go, and the lexer rules of CEL.g4.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult

from msgspec import Struct

from controller_manager.api.quantity import Quantity
from controller_manager.cel.syntax import SyntaxProblem, Token

# Values, as expressions compute with them.

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
        raise EvaluationError("integer overflow")
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


# The values of constants in an expression (the lexer rules of CEL.g4).

_LEAST_TRIPLE: Final = 6
"""The length of a text with three quotes on each side, and nothing between."""
_BYTES: Final = 256

_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_ESCAPED: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})"
    r"|([abfnrtv])|([\\'\"`?]))|\\|[^\\]+",
    re.DOTALL,
)


def literal_value(token: Token) -> Value:
    """Return the value of a constant; raises SyntaxProblem."""
    match token.kind:
        case "int":
            return _bounded(int(token.text, 0), MOST_INT)
        case "uint":
            return UInt(_bounded(int(token.text[:-1], 0), MOST_UINT))
        case "double":
            return float(token.text)
        case "string":
            return _text(token.text)
        case "bytes":
            return _bytes(token.text[1:])
    return {"true": True, "false": False, "null": None}[token.text]


def _bounded(number: int, most: int) -> int:
    # The number after a minus sign may be one more.
    if number > most + 1:
        raise SyntaxProblem(f"the number {number} is too large")
    return number


def _unquoted(text: str) -> tuple[str, bool]:
    is_raw = text[0] in "rR"
    text = text[1:] if is_raw else text
    width = 3 if text[:3] in ('"""', "'" * 3) and len(text) >= _LEAST_TRIPLE else 1
    return text[width:-width], is_raw


def _text(text: str) -> str:
    inner, is_raw = _unquoted(text)
    if is_raw:
        return inner
    return "".join(
        chr(code) if isinstance(code, int) else code for code in _unescaped(inner)
    )


def _bytes(text: str) -> bytes:
    inner, is_raw = _unquoted(text)
    parts = [inner] if is_raw else _unescaped(inner)
    return b"".join(
        bytes((part,)) if isinstance(part, int) and part < _BYTES else _encoded(part)
        for part in parts
    )


def _encoded(part: str | int) -> bytes:
    return (chr(part) if isinstance(part, int) else part).encode()


def _unescaped(text: str) -> list[str | int]:
    parts: list[str | int] = []
    for found in _ESCAPED.finditer(text):
        code = found[1] or found[2] or found[3]
        if code:
            parts.append(int(code, 16))
        elif found[4]:
            parts.append(int(found[4], 8))
        elif found[5] or found[6]:
            parts.append(_ESCAPES.get(found[5] or "", found[6] or ""))
        elif found[0] == "\\":
            raise SyntaxProblem(f"{text!r} has an escape that there is not")
        else:
            parts.append(found[0])
    return parts


# Operators with two operands (common/types of cel-go).

_ORDERED: Final = (str, bytes, bool, datetime, timedelta)


def _checked(result: Value, like: Value) -> Value:
    """Return a result in the type of its operands, if it fits; an overflow raises."""
    if isinstance(like, UInt):
        if not 0 <= result <= MOST_UINT:
            raise EvaluationError("unsigned integer overflow")
        return UInt(result)
    return result if isinstance(like, float) else whole(result)


def _same_numbers(one: Value, other: Value) -> bool:
    return is_number(one) and type(one) is type(other)


def _operator(
    operate: Callable[[Value, Value], Value], *pairs: tuple[type, type]
) -> Callable[[Value, Value], Value]:
    """Return an operator on numbers of a type, and on values of pairs of types."""

    def operated(one: Value, other: Value) -> Value:
        if _same_numbers(one, other):
            exact = int if isinstance(one, int) else float
            return _checked(operate(exact(one), exact(other)), one)
        if any(isinstance(one, a) and isinstance(other, b) for a, b in pairs):
            return operate(one, other)
        raise no_overload()

    return operated


add: Final = _operator(
    operator.add,
    *((each, each) for each in (str, bytes, list, timedelta)),
    (datetime, timedelta),
    (timedelta, datetime),
)
_subtract: Final = _operator(
    operator.sub, *((datetime, datetime), (datetime, timedelta), (timedelta, timedelta))
)


def _divide(one: Value, other: Value) -> Value:
    if not _same_numbers(one, other):
        raise no_overload()
    if isinstance(one, float):
        if other:
            return one / other
        return math.nan if not one or math.isnan(one) else math.copysign(math.inf, one)
    if not other:
        raise EvaluationError("division by zero")
    quotient = abs(int(one)) // abs(int(other))
    return _checked(quotient if (one < 0) == (other < 0) else -quotient, one)


def _modulo(one: Value, other: Value) -> Value:
    if not _same_numbers(one, other) or isinstance(one, float):
        raise no_overload()
    if not other:
        raise EvaluationError("modulus by zero")
    rest = abs(int(one)) % abs(int(other))
    return _checked(-rest if one < 0 else rest, one)


def compare(one: Value, other: Value) -> int:
    """Return -1, 0 or 1, as one value is less than the other, equal or greater."""
    if is_number(one) and is_number(other):
        return int(one > other) - int(one < other)
    if type(one) is not type(other) or not isinstance(one, _ORDERED):
        raise no_overload()
    return int(one > other) - int(one < other)


def _ordered(test: Callable[[int], bool]) -> Callable[[Value, Value], bool]:
    def operator(one: Value, other: Value) -> bool:
        order = compare(one, other)
        has_nan = any(
            isinstance(each, float) and math.isnan(each) for each in (one, other)
        )
        return not has_nan and test(order)

    return operator


OPERATORS: Final[Mapping[str, Callable[[Value, Value], Value]]] = {
    "+": add,
    "-": _subtract,
    "*": _operator(operator.mul),
    "/": _divide,
    "%": _modulo,
    "==": are_equal,
    "!=": lambda one, other: not are_equal(one, other),
    "<": _ordered(lambda order: order < 0),
    "<=": _ordered(lambda order: order <= 0),
    ">": _ordered(lambda order: order > 0),
    ">=": _ordered(lambda order: order >= 0),
    "in": lambda one, other: contains(other, one),
}


def negative(value: Value) -> Value:
    """Return a number with the other sign."""
    if not is_number(value) or isinstance(value, UInt):
        raise no_overload()
    return -value if isinstance(value, float) else whole(-value)


# Checks of the arguments of functions.

T = TypeVar("T")


def expect(value: Value, *types: type[T]) -> T:
    """Return a value of one of these types; raises EvaluationError for another.

    A bool and a uint do not count as an int.
    """
    if not isinstance(value, types):
        raise no_overload()
    if isinstance(value, bool | UInt) and type(value) not in types:
        raise no_overload()
    return value


def parsed(parse: Callable[[str], T], text: Value) -> T:
    """Return the parsed value of a text; raises EvaluationError if it is invalid."""
    try:
        return parse(expect(text, str))
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def is_parsed(parse: Callable[[str], Value], text: Value) -> bool:
    """Tell whether a text can be parsed."""
    try:
        parse(expect(text, str))
    except ValueError:
        return False
    return True
