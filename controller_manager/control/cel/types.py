"""The types of the values in an expression, as far as they are known."""

import re
from collections.abc import Callable, Mapping
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
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    )
)
_ESCAPES: Final = {
    "__": "__underscores__",
    ".": "__dot__",
    "-": "__dash__",
    "/": "__slash__",
}


def escaped(name: str) -> str | None:
    """Return the name of a property in expressions, `None` if it has none.

    Upstream: Escape of k8s.io/apiserver/pkg/cel.
    """
    if name in _KEYWORDS:
        return f"__{name}__"
    if not re.fullmatch(r"[A-Za-z_./-][A-Za-z0-9_./-]*", name):
        return None
    return re.sub(r"__|[./-]", lambda found: _ESCAPES[found[0]], name)
