"""The types of the values in an expression, as far as they are known, and operators.

Operators are those on scalars in the standard environment of cel-go. Ordering compares
any two numbers (CrossTypeNumericComparisons, as the API server sets).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Final

from msgspec import Struct


class Dynamic(Struct, frozen=True):
    """A value of any type: the type is not known, or not exactly enough."""


class Scalar(Struct, frozen=True):
    """A value without parts, by the name of its type, for example ``int``."""

    name: str


class ListOf(Struct, frozen=True):
    """A list of items of one type."""

    item: "Type"


class MapOf(Struct, frozen=True):
    """A map from strings to values of one type."""

    value: "Type"


class Object(Struct, frozen=True):
    """An object with a fixed set of fields.

    `field` returns the type of a field by its name in expressions, `None` if the object
    has no such field.
    """

    field: "Callable[[str], Type | None]"


class Optional(Struct, frozen=True):
    """A value that may be absent (``optional_type``)."""

    value: "Type"


Type = Dynamic | Scalar | ListOf | MapOf | Object | Optional

DYN: Final = Dynamic()
BOOL: Final = Scalar("bool")
BYTES: Final = Scalar("bytes")
DOUBLE: Final = Scalar("double")
DURATION: Final = Scalar("duration")
INT: Final = Scalar("int")
STRING: Final = Scalar("string")
TIMESTAMP: Final = Scalar("timestamp")


def object_of(fields: Mapping[str, Type]) -> Object:
    """Return an object with these fields."""
    return Object(fields.get)


_KEYWORDS: Final = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else"),
        *("for", "function", "if", "import", "let", "loop", "package", "namespace"),
        *("return", "var", "void", "while"),
    )
)
_ESCAPES: Final = dict(
    zip(("__", ".", "-", "/"), ("underscores", "dot", "dash", "slash"), strict=True)
)


def escaped(name: str) -> str | None:
    """Return the name of a property in expressions, `None` if it has none.

    Upstream: Escape of k8s.io/apiserver/pkg/cel.
    """
    if name in _KEYWORDS:
        return f"__{name}__"
    if not re.fullmatch(r"[A-Za-z_./-][A-Za-z0-9_./-]*", name):
        return None
    return re.sub(r"__|[./-]", lambda found: f"__{_ESCAPES[found[0]]}__", name)


_NUMBERS: Final = ("int", "uint", "double")
_COMPARED: Final = (*_NUMBERS, "string", "bytes", "bool", "timestamp", "duration")

_SAME: Final = frozenset((each, each) for each in _COMPARED)
_ORDERED: Final = _SAME | frozenset(product(_NUMBERS, _NUMBERS))
_ARITHMETIC: Final = frozenset((each, each) for each in _NUMBERS)
_WHOLE: Final = frozenset((each, each) for each in ("int", "uint"))
_BOOLEAN: Final = frozenset((("bool", "bool"),))

_ADDED: Final = _ARITHMETIC | {
    ("string", "string"),
    ("bytes", "bytes"),
    ("timestamp", "duration"),
    ("duration", "timestamp"),
    ("duration", "duration"),
}
_SUBTRACTED: Final = _ARITHMETIC | {
    ("timestamp", "timestamp"),
    ("timestamp", "duration"),
    ("duration", "duration"),
}

_DEFINED: Final[dict[str, frozenset[tuple[str, ...]]]] = {
    **dict.fromkeys(("==", "!="), _SAME),
    **dict.fromkeys(("<", "<=", ">", ">="), _ORDERED),
    **dict.fromkeys(("&&", "||"), _BOOLEAN),
    **dict.fromkeys(("*", "/"), _ARITHMETIC),
    "%": _WHOLE,
    "+": _ADDED,
    "-": _SUBTRACTED,
}
_UNARY: Final[dict[str, tuple[str, ...]]] = {"!": ("bool",), "-": ("int", "double")}
_RELATIONS: Final = frozenset(("==", "!=", "<", "<=", ">", ">=", "&&", "||", "!", "in"))


def is_defined(operator: str, operands: Sequence[Type]) -> bool:
    """Tell whether an operator may be defined for operands of these types.

    It is not if all are scalars, and the operator has no overload for them.
    """
    names = tuple(each.name for each in operands if isinstance(each, Scalar))
    if len(names) < len(operands) or not set(names) <= set(_COMPARED):
        return True
    if len(names) == 1:
        return names[0] in _UNARY[operator]
    return operator not in _DEFINED or names in _DEFINED[operator]


def result_of(operator: str, operands: Sequence[Type]) -> Type:
    """Return the type of an operation that is defined."""
    if operator in _RELATIONS:
        return BOOL
    match operands:
        case [Scalar(name=one) as found, Scalar(name=other)] if one == other:
            is_time = one in ("timestamp", "duration")
            return DYN if is_time else found
        case [Scalar() as found]:
            return found
    return DYN
